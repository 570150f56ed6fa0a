"""Quorums, break-glass, what was shown and confirmed; deadlines that were acted upon."""

from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("agents", "0024_guards"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name="decision",
            name="shown",
            field=models.BinaryField(
                help_text="Keyed hash of the fragment of the page that was shown.",
                null=True,
            ),
        ),
        migrations.AddField(
            model_name="decision",
            name="confirmed",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                help_text="What the person was asked for and gave: password, typed.",
                max_length=40,
            ),
        ),
        migrations.AddField(
            model_name="decision",
            name="break_glass",
            field=models.BooleanField(
                db_default=False,
                default=False,
                help_text="Given alone by an admin, against the terms of the request.",
            ),
        ),
        migrations.RemoveConstraint(
            model_name="decision", name="decision_once_per_revision_and_person"
        ),
        migrations.AddConstraint(
            model_name="decision",
            constraint=models.UniqueConstraint(
                fields=("approval", "revision", "by", "verdict"),
                name="decision_once_per_revision_and_person",
            ),
        ),
        migrations.AddField(
            model_name="approval",
            name="overdue_at",
            field=models.DateTimeField(
                editable=False,
                help_text="When its deadline had passed and was acted upon, once.",
                null=True,
            ),
        ),
        migrations.RemoveIndex(model_name="approval", name="approval_overdue"),
        migrations.AddIndex(
            model_name="approval",
            index=models.Index(
                condition=models.Q(
                    ("due_at__isnull", False),
                    ("overdue_at__isnull", True),
                    ("status", "pending"),
                ),
                fields=["due_at"],
                name="approval_overdue",
            ),
        ),
    ]
