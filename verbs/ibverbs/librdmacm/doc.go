// Package librdmacm connects the queue pairs of verbs/ibverbs' devices by librdmacm,
// and so by the kernel's connection manager, which has queue pair 1 of such
// devices. Import it for that alone, and call package verbs/rdmacm:
//
//	import _ "github.com/sluice-rdma/sluice/verbs/ibverbs/librdmacm"
//
//	conn, err := rdmacm.Dial(ctx, dev, addr, qp, rdmacm.DefaultParams())
//
// The queue pair is made through package verbs and belongs to the application, so it
// may be one that package paced has wrapped. librdmacm receives its number and
// returns the attributes to connect it with (rdma_init_qp_attr). librdmacm opens a
// context of its own on the device, but creates nothing there.
//
// librdmacm.so.1 is loaded at the first call, and needs the kernel's module rdma_ucm.
// The kernel decides some of rdmacm.Params: PathMTU must be 0 or the one that follows
// from the interface's MTU; FlowLabel and SL must be 0.
//
// Build with the tag ibverbs; without it the package is empty.
package librdmacm
