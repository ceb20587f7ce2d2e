// Package pcie is a NIC's link to the host's memory: transfers in TLPs on its two directions, tags and credits, the DMA
// engine, and at the far end the root complex, the IOMMU, the processors' cache, memory, and a peer device.
//
// A Link says of each read when its data have arrived, and of each write when it has left and when the host sees it. It
// carries no bytes: what they are is the caller's.
package pcie
