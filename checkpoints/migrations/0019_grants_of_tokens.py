"""A run may act for a program, and a program may say something to one."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ("checkpoints", "0018_api_tokens"),
    ]

    operations = [
        migrations.AlterField(
            model_name="auditevent",
            name="via",
            field=models.CharField(
                help_text="web, api, worker, command, admin", max_length=20
            ),
        ),
        migrations.AlterField(
            model_name="grant",
            name="user",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="grant",
            name="token",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="checkpoints.apitoken",
            ),
        ),
        migrations.AddField(
            model_name="threadinput",
            name="token",
            field=models.ForeignKey(
                help_text="Of the program that said it, where no person did.",
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="checkpoints.apitoken",
            ),
        ),
        migrations.AddConstraint(
            model_name="grant",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("token__isnull", True), ("user__isnull", False)),
                    models.Q(("token__isnull", False), ("user__isnull", True)),
                    _connector="OR",
                ),
                name="grant_for_a_person_or_a_token",
            ),
        ),
    ]
