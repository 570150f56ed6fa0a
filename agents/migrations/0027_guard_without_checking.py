"""That a guard looks is a time (`guard_asked_at`), not one of what it can find."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("agents", "0026_delivery"),
    ]

    operations = [
        migrations.AlterField(
            model_name="approval",
            name="guard",
            field=models.CharField(
                blank=True,
                choices=[
                    ("same", "unchanged"),
                    ("changed", "changed"),
                    ("invalid", "no longer valid"),
                    ("failed", "could not be checked"),
                ],
                max_length=10,
            ),
        ),
    ]
