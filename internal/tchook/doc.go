// Package tchook attaches a pair of eBPF programs to a network interface's TC hooks,
// one for leaving packets and one for arriving ones: by TCX where the kernel
// has it (6.6), else as filters of a clsact qdisc.
//
// TCX programs are detached when the process ends, however it ends. A filter stays
// when its process is killed, but does nothing: it jumps to a program that went with
// the process. The next Attach of the same name on that interface removes it.
package tchook
