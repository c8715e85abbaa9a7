#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# cluster_kit.sh: functions for scripts that run a cluster of real processes on this machine, with two replicas of
# each document. They ask questions, and every answer must be the one that was given first. What a script started
# ends with it, and its directory goes. After a failure the directory stays, with the logs.
#
# Set BIN before it is sourced, and be in the repository's root.

readonly DOCUMENTS=models/recall-small/documents
readonly NAMES=(dossier-01.txt dossier-02.txt dossier-03.txt dossier-04.txt dossier-05.txt dossier-06.txt)
readonly LATE=dossier-07.txt # Put while a node is away.
readonly WAIT_SECONDS=90
WORK=$(mktemp -d "${TMPDIR:-/tmp}/quire-cluster-demo-XXXXXX")
readonly WORK
declare -A PID ADDRESS QUESTION EXPECTED
declare -A SERVER # Program of a node; $BIN/quired without.
ETCD='' ETCD_PID=''

say() { printf '%4d s  %s\n' "$SECONDS" "$*"; }
fail() {
  say "FAILED: $*" >&2
  say "logs: $WORK" >&2
  FAILED=1
  exit 1
}

stop_all() {
  local pid
  for pid in "${PID[@]}" $ETCD_PID; do kill -9 "$pid" 2>/dev/null || true; done
  wait 2>/dev/null || true
  [[ -n $FAILED ]] || rm -rf "$WORK"
}

# until_true WHAT COMMAND...: waits until the command succeeds.
until_true() {
  local what=$1 deadline=$((SECONDS + WAIT_SECONDS))
  shift
  until "$@"; do
    ((SECONDS < deadline)) || fail "$what did not happen within $WAIT_SECONDS s"
    sleep 0.2
  done
}

# free_port: a port of loopback that nothing listens on.
free_port() {
  local port
  while port=$((15000 + RANDOM % 17000)); do
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || break
  done
  echo "$port"
}

start_etcd() {
  local peer
  ETCD=127.0.0.1:$(free_port) peer=127.0.0.1:$(free_port)
  etcd --data-dir "$WORK/etcd" --name demo --listen-client-urls "http://$ETCD" --advertise-client-urls "http://$ETCD" \
    --listen-peer-urls "http://$peer" --initial-advertise-peer-urls "http://$peer" \
    --initial-cluster "demo=http://$peer" --log-outputs stderr --logger zap 2>"$WORK/etcd.log" &
  ETCD_PID=$!
}

# cluster ARGS...: quire cluster, about this cluster.
cluster() { "$BIN/quire" cluster "$@" --etcd "$ETCD"; }

# is_in_state NODE STATE: what etcd says of a node.
is_in_state() { cluster nodes --json 2>/dev/null | grep -q "\"name\":\"$1\"[^}]*\"state\":\"$2\""; }

# start NODE: starts it with its disk, at its address if it had one.
start() {
  local node=$1
  : >"$WORK/$node.out"
  "${SERVER[$node]:-$BIN/quired}" --data-dir "$WORK/$node" --listen "${ADDRESS[$node]:-127.0.0.1:0}" --dram-bytes 128MiB \
    --ssd-bytes 256MiB --cluster demo --etcd "$ETCD" --node "$node" --node-lease-seconds 5 \
    >"$WORK/$node.out" 2>>"$WORK/$node.log" &
  PID[$node]=$!
  until_true "the start of $node" grep -q '^quired listening on ' "$WORK/$node.out"
  ADDRESS[$node]=$(sed -n 's/^quired listening on //p' "$WORK/$node.out")
  until_true "the join of $node" is_in_state "$node" up
}

# end NODE SIGNAL
end() {
  kill "-$2" "${PID[$1]}"
  wait "${PID[$1]}" 2>/dev/null || true
  unset "PID[$1]"
}

# servers: addresses of the nodes, those that are down included.
servers() {
  local IFS=,
  echo "${ADDRESS[*]}"
}

put() {
  "$BIN/quire" --server "$(servers)" put "$DOCUMENTS/$1" >>"$WORK/put.log" 2>&1 || fail "put of $1: $(tail -3 "$WORK/put.log")"
}

# ask DOCUMENT: prints the answer.
ask() {
  "$BIN/quire" --server "$(servers)" ask --document "$1" --question "${QUESTION[$1]}" 2>>"$WORK/ask.log"
}

# check_answers WHEN DOCUMENT...: every answer must be the expected one.
check_answers() {
  local when=$1 document answer
  shift
  for document in "$@"; do
    answer=$(ask "$document") || fail "no answer about $document $when: $(tail -3 "$WORK/ask.log")"
    [[ $answer == "${EXPECTED[$document]}" ]] ||
      fail "another answer about $document $when: '$answer' instead of '${EXPECTED[$document]}'"
  done
}

ask_all() {
  check_answers "$@"
  say "$(($# - 1)) answers $1: all as before"
}

# ask_until FILE COUNT WHEN DOCUMENT...: asks about all, again and again, until the file is there. Writes how many
# answers there were to the file COUNT.
ask_until() {
  local stop=$1 count=$2 answers=0
  shift 2
  until [[ -e $stop ]]; do
    check_answers "$@"
    answers=$((answers + $# - 1))
  done
  echo "$answers" >"$count"
}

# owners DOCUMENT: names of the nodes that it belongs to.
owners() { cluster where "$1" --json | sed -n 's/.*"owners":\[\([^]]*\)\].*/\1/p' | tr -d '"' | tr ',' ' '; }

is_at_owners() {
  local document node
  for document in "$@"; do
    for node in $(owners "$document"); do
      "$BIN/quire" --server "${ADDRESS[$node]}" --timeout 5 stat "$document" >/dev/null 2>&1 || return 1
    done
  done
}

# count_at NODE DOCUMENT...: how many of them belong to the node.
count_at() {
  local node=$1 document count=0
  shift
  for document in "$@"; do
    [[ " $(owners "$document") " != *" $node "* ]] || count=$((count + 1))
  done
  echo "$count"
}

read_questions() {
  local document line
  for document in "${NAMES[@]}" "$LATE"; do
    line=$(grep -m 1 "\"$document\"" "$DOCUMENTS/questions.jsonl")
    QUESTION[$document]=$(sed -n 's/.*Question: \([^"]*\)".*/\1/p' <<<"$line")
  done
}

FAILED=''
trap stop_all EXIT
trap 'FAILED=1; exit 130' INT TERM
