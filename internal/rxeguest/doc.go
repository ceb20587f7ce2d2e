// Package rxeguest gives a machine whose kernel has no RDMA a soft-RoCE device:
// it boots Debian's kernel, with rdma_rxe, perftest and rdma-core's tools, in
// QEMU under software emulation, and runs commands in it.
//
// [Prepare] makes the [Image] once and keeps it in a cache: it has apt-get
// download packages of one fixed Debian release, into a directory of its own,
// and takes from them a kernel, an initramfs, QEMU and the libraries these need.
// Nothing is installed, and neither root nor a particular release is required.
//
// A [Host] is the near end of the wire: namespaces of its own for network and processes,
// in which QEMU runs and in which the caller's commands run ([Host.Command]). A guest
// reaches it through a tap device ([Host.NewTap]), or reaches another guest through a
// wire ([Host.NewWire]). When the Host is closed, or the process that made it ends for
// any reason, the kernel kills all processes inside and removes the devices.
//
// [Image.Boot] starts a [Guest], which has an RDMA device rxe0 over its eth0.
// [Guest.Run] and [Guest.Start] run commands there. An agent in the guest takes
// requests from a virtio serial port and leaves output in a folder that it
// shares with the host over 9p.
//
// The guest's clock runs slow and unevenly: its function and counts are evidence,
// its times are not.
//
// Everything here is for Linux on amd64 only. Where the machine can't run it, the
// error is an [*UnavailableError], which names the reason: a test skips on it.
package rxeguest
