"""What to tell whom: one message model, rendered for Slack, PagerDuty and Alertmanager."""
