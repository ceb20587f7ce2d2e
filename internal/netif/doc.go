// Package netif reads what the kernel knows of a network interface, and follows it: by
// netlink and ethtool, in the network namespace of the thread that calls. The files
// below /sys/class/net belong to the namespace in which sysfs was mounted, which under
// "nsenter --net" is another one.
package netif
