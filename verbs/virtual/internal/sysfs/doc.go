// Package sysfs writes what the kernel's sysfs has of mlx5 devices, as a tree of plain
// files: class/infiniband, class/infiniband_verbs, class/misc/rdma_cm, and the PCI
// devices behind them, under the names and with the text that
// Documentation/ABI/stable/sysfs-class-infiniband and the mlx5 driver have.
package sysfs
