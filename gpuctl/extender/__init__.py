"""The HTTP service: scheduler extender, alert webhook, closed loop, own metrics."""
