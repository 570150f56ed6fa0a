"""A use keeps what it and all before it come to, so that a sum is a difference of two.

Uses that are there already have none: they are added up one by one until they leave
their windows. Nothing is filled in, as only workers open what is sealed.
"""

from django.db import migrations, models

import checkpoints.models.fields


class Migration(migrations.Migration):
    dependencies = [
        ("agents", "0027_guard_without_checking"),
    ]

    operations = [
        migrations.AddField(
            model_name="policyuse",
            name="total",
            field=checkpoints.models.fields.SealedField(null=True),
        ),
        migrations.AddIndex(
            model_name="policyuse",
            index=models.Index(
                condition=models.Q(("amount__isnull", False), ("total", None)),
                fields=["workspace", "window", "at"],
                name="policy_use_alone",
            ),
        ),
    ]
