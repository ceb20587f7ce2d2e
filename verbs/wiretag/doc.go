// Package wiretag reads what switches report about the path of RoCEv2 packets, at the
// hooks of a host's network interface, for devices that can't: an eBPF program takes
// the tags of package telemetry off the frames that arrive, reflects them to the
// sender, and puts fresh ones on the requests that leave. Wrap makes a
// verbs.TelemetryQP of that, by which package paced steers Poseidon.
//
//	dev, err := verbs.Open("ibv:rxe0")
//	tagged, err := wiretag.Wrap(dev, "eth0", wiretag.DefaultConfig(telemetry.Value))
//	shim, err := paced.Wrap(tagged, cfg)
//
// Both ends take part: the receiver wraps its device too, which reveals the queue pair
// of a packet's sender. The receiver needs the wrapper for the reflection; it may
// request no tags of its own.
//
// # Devices
//
// The kernel's soft-RoCE sends and receives through the host's network stack, whose
// hooks see its packets. A NIC that does RoCE in hardware does not, and no stock NIC
// parses the tags: there the last switch takes them off. For such a device Wrap sends
// probes instead, small UDP packets with a tag on the path of each connection, which
// the program of the peer answers in the kernel with the content of their tag.
// verbs/softroce reads tags itself; over UDP sockets without segmentation offload
// (gso=off) Wrap does it as well.
//
// # Needs
//
// Linux 5.8, CAP_BPF and CAP_NET_ADMIN. docs/host-ebpf.md has the rest.
package wiretag
