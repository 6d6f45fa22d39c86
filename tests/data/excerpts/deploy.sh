#!/bin/sh
# Puts a new release on the servers, one after the other.
set -eu

KEEP_RELEASES=5
HEALTH_RETRIES=12

usage() {
    echo "usage: deploy.sh [--dry-run] [--skip-migrations] RELEASE"
    echo "  --dry-run           say what would be done"
    echo "  --skip-migrations   leave the database as it is; only for a roll-back"
}

wait_until_healthy() {
    host=$1
    tries=0
    while ! curl -fsS "https://$host/health" > /dev/null; do
        tries=$((tries + 1))
        if [ "$tries" -ge "$HEALTH_RETRIES" ]; then
            echo "$host did not come up" >&2
            exit 75
        fi
        sleep 5
    done
}

remove_old_releases() {
    ls -1t /srv/shop/releases | tail -n "+$((KEEP_RELEASES + 1))" | while read -r name; do
        rm -rf "/srv/shop/releases/$name"
    done
}
