"""Claims on space that victims still hold, and evictions for other workloads in the row of a workload's setbacks."""

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute(
        """
        CREATE TABLE claims (
            kind TEXT NOT NULL,
            uid TEXT NOT NULL,
            queue TEXT NOT NULL,
            generation TEXT NOT NULL,
            until BIGINT NOT NULL,
            victims BIGINT[] DEFAULT '{}' NOT NULL,
            pod_sets TEXT[] DEFAULT '{}' NOT NULL,
            ordinals INTEGER[] DEFAULT '{}' NOT NULL,
            nodes TEXT[] DEFAULT '{}' NOT NULL,
            flavors TEXT[] DEFAULT '{}' NOT NULL,
            shape_of SMALLINT[] DEFAULT '{}' NOT NULL,
            shapes JSONB DEFAULT '[]'::jsonb NOT NULL,
            CONSTRAINT pk_claims PRIMARY KEY (kind, uid)
        )
        """
    )
    op.execute(
        """
        ALTER TABLE backoffs
            ADD COLUMN evictions BIGINT DEFAULT 0 NOT NULL,
            ADD COLUMN waiting_since BIGINT DEFAULT 0 NOT NULL
        """
    )


def downgrade() -> None:
    op.execute("ALTER TABLE backoffs DROP COLUMN evictions, DROP COLUMN waiting_since")
    op.execute("DROP TABLE claims")
