// Command rxe runs a command on a machine with a soft-RoCE device, and needs none:
// it boots Debian's kernel with rdma_rxe in QEMU, runs the command there, shows its
// output and exits with its status. It needs Linux on amd64, apt-get, Debian's
// keyring, and network namespaces; it installs nothing.
//
//	go run github.com/sluice-rdma/sluice/tools/rxe@latest ibv_devinfo
//	rxe -server 'ib_write_bw -x 1' -ready 'ss -Hltn | grep -q :18515' ib_write_bw -x 1 192.0.2.1
//	rxe -root / ./my-rdma-tests
//
// The guest has perftest 4.5, rping and the other utilities of rdma-core, iproute2
// and busybox. Its working folder is /job, which is the current folder of the
// caller (-dir names another). With -root / the commands run on the file system
// of this machine instead, in that same folder under its own name: programs that
// were built here find their libraries. All but that folder and /tmp is read only.
//
// rxe0 has the addresses 192.0.2.2 and 2001:db8::2, at GID indexes 1 and 2. The
// other end, at 192.0.2.1 and 2001:db8::1, is a second guest that runs the command
// of -server, or with -host this machine, on which that command runs beside the
// guest in a network namespace of its own. Either gets a shell, and goes when the
// command has ended.
//
// Exit statuses: the command's; 124 when -timeout has passed; 125 when something
// here failed; 126 when this machine can't run guests.
package main
