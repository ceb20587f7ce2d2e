// Package wirestamp gives completion timestamps to devices that have none, of
// packets that pass the host's network stack: the kernel's soft-RoCE through
// verbs/ibverbs, and verbs/softroce. An eBPF program at the TC hooks of the network
// interface stamps requests as they leave and acknowledgements as they arrive;
// Wrap makes verbs.WC.Timestamp of that.
//
//	dev, err := verbs.Open("soft:eth0")
//	stamped, err := wirestamp.Wrap(dev, "eth0")
//	shim, err := paced.Wrap(stamped, cfg)
//
// A NIC that does RoCE in hardware bypasses the network stack: no hook sees its
// packets, and Wrap refuses it. Such NICs have timestamps of their own.
//
// # What a timestamp is
//
// WC.Timestamp of a send request on a CQ made with Timestamps is when its
// acknowledgement arrived, or the last packet of a READ's or atomic's response, in
// nanoseconds of CLOCK_MONOTONIC. Where no stamp arrived for it, it is the time of
// the Poll that returned the completion, and Stats.Unstamped counts that; nothing
// waits. The same holds for completions that failed and for receives, which
// Stats.Others counts. QP.Stamps distinguishes the two kinds and has the other
// known times, and QP is a verbs.SentTimestampQP.
//
// Package match, below, says how packets and requests are matched, and which of
// several transmissions counts.
//
// # Needs
//
// Linux 5.8, CAP_BPF and CAP_NET_ADMIN. Only reliable connections are stamped, and
// only UDP port 4791. docs/host-ebpf.md has the rest.
package wirestamp
