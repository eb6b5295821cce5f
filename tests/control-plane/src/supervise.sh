# usage: supervise.sh FOLDER LOG PROGRAM [ARGUMENT]...
# Runs a server and prints its process id. Lines on standard input are signals to send to it. When standard input ends,
# which it does however the process at the other end has ended, the server is killed and FOLDER removed.
folder=$1
log=$2
shift 2
exec 3<&0
"$@" </dev/null >>"$log" 2>&1 3<&- &
server=$!
echo "$server"
(
    while read -r signal; do
        kill -s "$signal" "$server"
    done
    trap '' TERM # what follows is to be finished even though the shell below sees the server end
    kill -s KILL "$server"
    tries=0
    while [ -e "$folder" ] && [ "$tries" -lt 1000 ]; do
        rm -rf "$folder" # other servers of this control plane may still write there
        tries=$((tries + 1))
    done
) <&3 >/dev/null 2>&1 &
listener=$!
exec 3<&- >/dev/null 2>&1
wait "$server"
code=$?
kill "$listener"
exit "$code"
