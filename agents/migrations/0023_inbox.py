"""The order of the queue as an index, and when a request changed last."""

import datetime

from django.db import migrations, models
from django.db.models import Case, F, IntegerField, Q, Value, When
from django.db.models.functions import Coalesce

import checkpoints.clock

FAR = datetime.datetime(9999, 12, 31, tzinfo=datetime.UTC)
FUNCTION = """
CREATE FUNCTION agents_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.changed_at := clock_timestamp();
    RETURN NEW;
END $$
"""


class Migration(migrations.Migration):
    dependencies = [("agents", "0019_policies"), ("checkpoints", "0022_step_resume")]

    operations = [
        migrations.RemoveIndex(model_name="approval", name="approval_pending"),
        migrations.AddIndex(
            model_name="approval",
            index=models.Index(
                F("workspace"),
                Coalesce(F("due_at"), Value(FAR), output_field=models.DateTimeField()),
                F("priority") * -1,
                Case(
                    When(risk="critical", then=Value(0)),
                    When(risk="high", then=Value(1)),
                    When(risk="medium", then=Value(2)),
                    When(risk="low", then=Value(3)),
                    default=Value(4),
                    output_field=IntegerField(),
                ),
                F("asked_at"),
                F("id"),
                condition=Q(status="pending"),
                name="approval_queue",
            ),
        ),
        migrations.AddField(
            model_name="approval",
            name="changed_at",
            field=models.DateTimeField(
                db_default=checkpoints.clock.ClockTimestamp(),
                editable=False,
                help_text="A trigger's: pages that are open ask what changed last.",
            ),
        ),
        migrations.AddIndex(
            model_name="approval",
            index=models.Index(
                fields=["workspace", "-changed_at"], name="approval_changed"
            ),
        ),
        migrations.RunSQL(FUNCTION, "DROP FUNCTION agents_changed()"),
        migrations.RunSQL(
            "CREATE TRIGGER changed BEFORE UPDATE ON agents_approval"
            " FOR EACH ROW EXECUTE FUNCTION agents_changed()",
            "DROP TRIGGER changed ON agents_approval",
        ),
    ]
