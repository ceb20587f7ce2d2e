// Package nccl is libnccl-net-sluice.so, a network plugin for NCCL in C: src has it, `make nccl-plugin` builds it, and
// docs/nccl.md says what it does. What is Go here tests it, by programs in testdata that load it as NCCL does.
//
// The plugin knows libibverbs and nothing of Sluice's Go: what paces its queue pairs comes before libibverbs
// (libsluice-preload.so).
package nccl
