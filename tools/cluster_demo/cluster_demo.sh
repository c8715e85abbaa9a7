#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# cluster_demo.sh [BIN_DIR]: a cluster of real processes (cluster_kit.sh). Questions are asked while a server is
# killed, after its repair, after a fourth has joined, and after the first was drained and removed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

readonly BIN=${1:-build/release/bin}
# shellcheck source=tools/cluster_demo/cluster_kit.sh
source tools/cluster_demo/cluster_kit.sh

# ask_during_kill NODE: two processes ask while the node is killed, and until it is lost.
ask_during_kill() {
  local victim=$1 askers=() asker
  for asker in 1 2; do
    ask_until "$WORK/enough" "$WORK/answers.$asker" "while $victim is killed" "${NAMES[@]}" &
    askers+=($!)
  done
  sleep 1
  end "$victim" KILL
  say "$victim was killed during the questions"
  until_true "the loss of $victim" is_in_state "$victim" lost
  touch "$WORK/enough"
  for asker in "${askers[@]}"; do
    wait "$asker" || { FAILED=1; exit 1; }
  done
  say "$(($(<"$WORK/answers.1") + $(<"$WORK/answers.2"))) answers before, during and after that: all as before"
}

main() {
  local document
  read_questions
  start_etcd
  until_true "the start of etcd" bash -c "exec 3<>/dev/tcp/${ETCD/://}" 2>/dev/null
  for node in a b c; do start "$node"; done
  cluster settings --replicas 2 >/dev/null
  say "three servers and etcd run; two replicas of each document"
  for document in "${NAMES[@]}"; do put "$document"; done
  is_at_owners "${NAMES[@]}" || fail "a put returned before both owners had the document"
  say "${#NAMES[@]} documents were put, each to its two owners"
  for document in "${NAMES[@]}"; do EXPECTED[$document]=$(ask "$document") || fail "no first answer about $document"; done
  say "asked: '${QUESTION[${NAMES[0]}]}', answered: '${EXPECTED[${NAMES[0]}]}'"

  ask_during_kill b
  put "$LATE"
  EXPECTED[$LATE]=$(ask "$LATE") || fail "no first answer about $LATE"
  say "$LATE was put while b is lost"

  start b
  until_true "the repair" is_at_owners "${NAMES[@]}" "$LATE"
  say "b is back, and every document is at its owners again"
  ask_all "after the repair" "${NAMES[@]}" "$LATE"

  start d
  until_true "the move to d" is_at_owners "${NAMES[@]}" "$LATE"
  say "d joined, and got its $(count_at d "${NAMES[@]}" "$LATE") documents"
  ask_all "with four servers" "${NAMES[@]}" "$LATE"

  cluster drain a >/dev/null
  until_true "the handing over of a" is_at_owners "${NAMES[@]}" "$LATE"
  end a TERM
  until_true "the leave of a" is_in_state a left
  cluster remove a >/dev/null
  unset "ADDRESS[a]"
  say "a was drained, stopped and removed"
  ask_all "without a" "${NAMES[@]}" "$LATE"
  say "done: nothing was lost"
}

main
