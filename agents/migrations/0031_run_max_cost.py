"""A run may have a limit of its own for what it costs: a person's, beside its agent's."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("agents", "0028_policy_totals")]

    operations = [
        migrations.AddField(
            model_name="run",
            name="max_cost",
            field=models.DecimalField(
                decimal_places=6,
                help_text="US dollars that a person lets it use; null: as its agent says.",
                max_digits=12,
                null=True,
            ),
        ),
    ]
