// Package icm models the on-chip memory that caches a NIC's state in host memory: contexts, keys, pages' entries and
// elements of send queues (the drivers' interconnect context memory).
package icm
