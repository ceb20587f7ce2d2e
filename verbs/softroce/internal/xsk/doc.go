// Package xsk is AF_XDP sockets for RoCEv2: memory that is shared with the kernel, its
// four rings, and the XDP program that steers an interface's RoCEv2 packets there
// (Linux, Documentation/networking/af_xdp.rst).
//
// It knows no packets but what the program has to tell apart, and neither routes nor
// neighbours: whole frames come and go.
package xsk
