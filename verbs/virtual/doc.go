// Package virtual is a ConnectX without a ConnectX: a device that Debian's unmodified
// libibverbs and libmlx5 drive as they drive an mlx5 device, and whose packets another
// verbs.Device sends. Programs reach it through package guest's library, which they
// preload; see docs/virtual-nic.md.
//
// A Device opens device nodes for processes (OpenNode). Each open node has the objects
// that its process made through it: they go when it is closed, and when the process
// ends. Commands are the kernel's write ABI (package uverbs); the queues in the
// programs' memory are served by package mlx5.
//
// What a device of the model has and the back end has not is refused as the kernel
// refuses it for a device without it: memory windows, extended reliable connections,
// multicast, raw packets, flow steering, on-demand memory, the firmware's commands (DEVX).
package virtual
