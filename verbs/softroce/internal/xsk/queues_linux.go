package xsk

import (
	"github.com/safchain/ethtool"
	"github.com/vishvananda/netlink"
)

// Queues is how many queues an interface receives by, at least 1.
func Queues(index int) (int, error) {
	l, err := netlink.LinkByIndex(index)
	if err != nil {
		return 0, err
	}
	e, err := ethtool.NewEthtool()
	if err != nil {
		return 0, err
	}
	defer e.Close()
	if c, err := e.GetChannels(l.Attrs().Name); err == nil {
		return max(1, int(c.CombinedCount+c.RxCount)), nil
	}
	// The driver does not say which of its queues it uses.
	return max(1, l.Attrs().NumRxQueues), nil
}
