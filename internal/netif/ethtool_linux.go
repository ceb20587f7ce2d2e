package netif

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// linkSettings is the kernel's struct ethtool_link_settings, with room for its masks.
type linkSettings struct {
	cmd, speed uint32
	_          [7]uint8
	words      int8 // of each mask
	_          [4]uint8
	_          [7]uint32
	_          [3 * 127]uint32
}

// ifreq is the kernel's struct ifreq, as SIOCETHTOOL takes it.
type ifreq struct {
	name [unix.IFNAMSIZ]byte
	data unsafe.Pointer
	_    [16]byte
}

// lineRate asks an interface's driver for the rate of its line, in bits per second: 0
// where it knows none, as without carrier.
func lineRate(fd int, name string) int64 {
	const glinksettings, unknown = 0x4c, 1<<32 - 1
	s := new(linkSettings)
	r := ifreq{data: unsafe.Pointer(s)}
	copy(r.name[:unix.IFNAMSIZ-1], name)
	// The kernel answers the first request with how long its masks are, negative, and
	// the second with the settings.
	for range 2 {
		s.cmd = glinksettings
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&r))); errno != 0 {
			return 0
		}
		if s.words > 0 {
			break
		}
		s.words = -s.words
	}
	if s.words <= 0 || s.speed == unknown {
		return 0
	}
	return int64(s.speed) * 1_000_000
}
