// Package ucma is /dev/infiniband/rdma_cm of a virtual device: the commands that
// librdmacm writes to it (ABI version 4, <rdma/rdma_user_cm.h>), and rdma_cm's rules
// behind them, over the connection manager of package cm and the device's queue pair 1.
//
// A Host is one device's, with its ports and connections; a File is one open node, with
// the identifiers made on it and their events. What the commands mean, and their errors,
// are those of Linux 6.1 (drivers/infiniband/core/ucma.c, cma.c and cm.c).
//
// A program moves its queue pair itself: to RTR and RTS when a CONNECT_RESPONSE event
// says that the REP has come. Only its ACCEPT sends the RTU.
//
// # What is not there
//
// Addresses of InfiniBand (AF_IB), which has librdmacm use the commands for IP addresses;
// multicast; XRC; ECE, which is answered with zeros; alternate paths. The path of a route
// can't be set (RDMA_OPTION_IB_PATH): RoCE's follow from the addresses.
package ucma
