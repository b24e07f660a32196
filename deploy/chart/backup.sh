# Writes a backup of the database $MUSTER_DSN into the folder $FOLDER, reads it again, and keeps the newest $KEEP.
# The CronJob muster-backup runs it in an image of Postgres (value backup.image): docs/how-to/operate.md.
set -eu
umask 077

fail() {
  echo "$1" >&2
  exit 1
}

server=$(psql -XAtq -d "$MUSTER_DSN" -c "SHOW server_version_num")
server=$((server / 10000))
client=$(pg_dump --version | sed "s/^[^0-9]*\([0-9]*\).*/\1/")
[ "$server" -le "$client" ] ||
  fail "Postgres is version $server and pg_dump only $client, so no backup was written: set the value backup.major to $server, or backup.image to an image with pg_dump $server."
[ "$server" -eq "$client" ] ||
  echo "Postgres is version $server and pg_dump $client: restore the backup into Postgres $client, or set the value backup.major to $server."

cd "$FOLDER"
exec 9> .muster-backup.lock
flock -n 9 || fail "Another backup is being written into $FOLDER, so this one was not: wait until it has ended."
# What a run that was killed left behind has this name too.
draft=.muster-backup.draft
trap 'rm -f "$draft"' EXIT
rm -f "$draft"

name=muster-$(date -u +%Y%m%dT%H%M%SZ).dump
pg_dump -d "$MUSTER_DSN" --format=custom --file="$draft"
# Reads the tables to their end.
pg_restore --file=/dev/null "$draft"
pg_restore --list "$draft" | grep -q " TABLE DATA [^ ]* alembic_version " ||
  fail "The database has none of Muster's tables, so no backup was kept: set the DSN of Muster's database."
mv "$draft" "$name"
echo "$name: $(wc -c < "$name") bytes, Postgres $server"

# The clock may have been set back: the new one stays, whatever its name.
ls | grep -E "^muster-[0-9]{8}T[0-9]{6}Z\.dump$" | grep -vx "$name" | sort -r | tail -n "+$KEEP" |
  while read -r old; do
    rm "$old"
    echo "$old: removed, $KEEP are kept"
  done
