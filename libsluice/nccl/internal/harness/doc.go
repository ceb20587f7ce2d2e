// Package harness tests libnccl-net-sluice.so, the network plugin for NCCL (nccl/src, docs/nccl.md), by programs in
// testdata that load it as NCCL does. It must not know how the plugin works inside, but for the choice of queue pairs.
package harness
