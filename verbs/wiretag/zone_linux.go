package wiretag

import (
	"net"
	"strconv"
)

// zone is the index of the interface that an address's zone names, 0 if none.
func zone(name string) uint32 {
	if n, err := strconv.ParseUint(name, 10, 32); err == nil {
		return uint32(n)
	}
	if i, err := net.InterfaceByName(name); err == nil {
		return uint32(i.Index)
	}
	return 0
}
