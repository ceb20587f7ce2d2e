// Package ibverbs is the provider over libibverbs: real devices, and the kernel's
// soft-RoCE. It uses cgo and is there only with the build tag ibverbs, which make
// sets where it finds libibverbs; without the tag the package is empty.
//
//	import _ "github.com/sluice-rdma/sluice/verbs/ibverbs"
//
//	dev, err := verbs.Open("ibv:mlx5_0")                      // as ibv_devices lists them
//	dev, err := verbs.Open("ibv:mlx5_0?timestamps=wallclock") // the device's clock in nanoseconds
//	dev, err := verbs.Open("ibv:mlx5_0?direct=off")           // libmlx5 posts and polls
//
// The port is given with the attributes of a queue pair, as with libibverbs.
//
// # Crossings
//
// A call into C costs some 50 ns, whatever it does. Where libmlx5 drives the device, posting,
// polling and arming need none: Go writes and reads the rings that mlx5dv_init_obj shows.
// Capabilities.Direct reports whether, docs/real-nic.md what follows from that: C code that has a
// Handle must not post, poll or take events then.
//
// Elsewhere PostSend and PostRecv fill
// an array in C's layout, which the queue pair owns, and one call posts all of
// it (up to 64 requests); one call of Poll takes all completions that there are. None of
// them allocates.
//
// # Timestamps
//
// Opening a device tests its timestamps: it creates a completion queue with them
// and destroys it. DeviceAttr.CoreClockHz is 0 where that fails, and
// Device.Capabilities says why.
//
// # Memory
//
// RegMR pins the slice's memory with runtime.Pinner until Close, so the collector
// neither frees nor moves what the device writes. Fork without exec is not
// something that Go does; os/exec is safe, as its child touches nothing before exec.
//
// # RoCE only
//
// An AddressVector names a peer by GID. On an InfiniBand fabric it would also
// need a LID, so ports whose link layer is InfiniBand refuse it. Of the GIDs that a
// port has for an address those of RoCEv2 are preferred, as perftest does.
package ibverbs
