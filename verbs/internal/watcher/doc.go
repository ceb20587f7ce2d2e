// Package watcher is what the eBPF programs that watch the packets of reliable
// connections, at the hooks of a network interface, have in common: which devices they
// can serve, registering connections with them, and reading their records. The
// programs themselves share bpf/kernel.h.
package watcher
