#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# upgrade_test.sh PREVIOUS_QUIRED [BIN_DIR]: a rolling upgrade of a cluster of real processes (cluster_kit.sh). Three
# servers of the previous version are replaced by new ones, one after another, while two processes ask and one puts.
# Every answer must be the one of before, and every put must be there at the end. Then a server of the previous
# version takes one place again, and one comes back after a restore of a backup: it has to be refused.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

readonly PREVIOUS=$1 BIN=${2:-build/release/bin}
# shellcheck source=tools/cluster_demo/cluster_kit.sh
source tools/cluster_demo/cluster_kit.sh

readonly MOST_TRIES=3 # Of a put whose node stops in the middle.

# put_until FILE COUNT: puts documents under new names until the file is there. Writes to the file COUNT how many
# there were, and how many had to be put again.
put_until() {
  local stop=$1 count=$2 number=0 again=0 tries
  until [[ -e $stop ]]; do
    tries=1
    until "$BIN/quire" --server "$(servers)" put "$DOCUMENTS/${NAMES[number % 3]}" --name "put-$number" \
      >>"$WORK/put.log" 2>&1; do
      ((tries++ < MOST_TRIES)) || fail "a put during the upgrade: $(tail -3 "$WORK/put.log")"
      again=$((again + 1))
    done
    number=$((number + 1))
  done
  echo "$number $again" >"$count"
}

# replace NODE PROGRAM: stops a node in order, and starts another program with its disk, at its address.
replace() {
  local node=$1
  end "$node" TERM
  SERVER[$node]=$2
  start "$node"
  until_true "the repair of $node" is_at_owners "${NAMES[@]}"
}

upgrade_all() {
  local workers=() asker node number puts again
  for asker in 1 2; do
    ask_until "$WORK/enough" "$WORK/answers.$asker" "during the upgrade" "${NAMES[@]}" &
    workers+=($!)
  done
  put_until "$WORK/enough" "$WORK/puts" &
  workers+=($!)
  for node in a b c; do
    replace "$node" "$BIN/quired"
    say "$node runs the new version"
  done
  touch "$WORK/enough"
  for asker in "${workers[@]}"; do
    wait "$asker" || { FAILED=1; exit 1; }
  done
  read -r puts again <"$WORK/puts"
  for ((number = 0; number < puts; ++number)); do
    "$BIN/quire" --server "$(servers)" stat "put-$number" >/dev/null 2>>"$WORK/ask.log" ||
      fail "put-$number is not there: $(tail -1 "$WORK/ask.log")"
  done
  say "$(($(<"$WORK/answers.1") + $(<"$WORK/answers.2"))) answers during the upgrade: none failed, none was wrong"
  say "$puts documents put during the upgrade, of which $again again: all are there"
}

# refuse_previous: a server of the previous version must not join.
refuse_previous() {
  if timeout 30 "$PREVIOUS" --data-dir "$WORK/c" --listen "${ADDRESS[c]}" --dram-bytes 128MiB --ssd-bytes 256MiB \
    --cluster demo --etcd "$ETCD" --node c >"$WORK/c.out" 2>>"$WORK/c.log"; then
    fail "a server of the previous version joined a restored cluster"
  fi
  grep -q 'upgrade the program' "$WORK/c.log" || fail "a server of the previous version does not say why it stops"
}

main() {
  local document node
  read_questions
  start_etcd
  until_true "the start of etcd" bash -c "exec 3<>/dev/tcp/${ETCD/://}" 2>/dev/null
  for node in a b c; do
    SERVER[$node]=$PREVIOUS
    start "$node"
  done
  cluster settings --replicas 2 >/dev/null
  for document in "${NAMES[@]}"; do put "$document"; done
  for document in "${NAMES[@]}"; do EXPECTED[$document]=$(ask "$document") || fail "no first answer about $document"; done
  say "three servers of the previous version run, with ${#NAMES[@]} documents"

  upgrade_all
  ask_all "with the new version" "${NAMES[@]}"

  replace c "$PREVIOUS"
  ask_all "with one server of the previous version" "${NAMES[@]}"
  replace c "$BIN/quired"

  cluster backup "$WORK/registry.backup" >/dev/null
  for node in a b c; do end "$node" TERM; done
  cluster restore "$WORK/registry.backup" --replace >/dev/null
  for node in a b; do start "$node"; done
  refuse_previous
  say "a server of the previous version does not join a cluster that was restored"
  start c
  until_true "the repair" is_at_owners "${NAMES[@]}"
  ask_all "after the restore" "${NAMES[@]}"
  say "done: nothing was lost"
}

main
