"""E-mail: plain text, by Django's backend. A link opens a page that asks who one is."""

from __future__ import annotations

import smtplib
from email.utils import parseaddr

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.mail import EmailMessage, get_connection
from django.core.validators import validate_email

from agents.delivery.message import Message
from agents.delivery.trouble import BadAddress, NotDelivered

SECONDS = 10  # that a mail server may take for one answer


def require_address(address: str) -> None:
    """Raises BadAddress."""
    try:
        validate_email(address)
    except ValidationError:
        raise BadAddress("This is no e-mail address.") from None


def post(address: str, message: Message) -> None:
    """Send it, once. Raises NotDelivered."""
    try:
        require_address(address)
    except BadAddress:
        raise NotDelivered("bad_address", final=True) from None
    if not settings.EMAIL_BACKEND:
        raise NotDelivered("no_mail_server")
    domain = parseaddr(settings.DEFAULT_FROM_EMAIL)[1].rpartition("@")[2]
    mail = EmailMessage(
        subject=message.subject,
        body=message.text,
        to=[address],
        headers={
            "Message-ID": f"<{message.id}@{domain or 'holdpoint'}>",
            "Auto-Submitted": "auto-generated",
        },
        connection=get_connection(timeout=SECONDS),
    )
    try:
        mail.send()
    except smtplib.SMTPRecipientsRefused as refused:
        codes = [code for code, _ in refused.recipients.values()]
        final = all(code >= 500 for code in codes)
        raise NotDelivered(f"smtp_{max(codes, default=0)}", final=final) from None
    except smtplib.SMTPResponseException as refused:
        raise NotDelivered(f"smtp_{refused.smtp_code}") from None
    except TimeoutError:
        raise NotDelivered("timeout") from None
    except (OSError, smtplib.SMTPException):
        raise NotDelivered("no_answer") from None
