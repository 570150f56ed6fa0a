"""People and programs are told of requests: an outbox, e-mail, signed webhooks."""
