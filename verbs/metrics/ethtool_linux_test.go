package metrics

import (
	"os"
	"runtime"
	"testing"

	"github.com/safchain/ethtool"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// The ioctl itself, over an interface that any kernel has and that counts: one end of
// a veth pair, whose statistic peer_ifindex is known otherwise.
func TestEthtoolReadsARealInterface(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make a network namespace")
	}
	runtime.LockOSThread() // and not unlocked: the thread ends with its namespace
	ns, err := netns.New()
	if err != nil {
		t.Skipf("no network namespace: %v", err)
	}
	defer ns.Close()
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "a"}, PeerName: "b"}); err != nil {
		t.Skipf("no veth: %v", err)
	}
	peer, err := netlink.LinkByName("b")
	if err != nil {
		t.Fatal(err)
	}
	e, err := ethtool.NewEthtool()
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	stats, err := e.Stats("a")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := stats["peer_ifindex"], uint64(peer.Attrs().Index); got != want {
		t.Errorf("peer_ifindex of %v is %d, want %d", stats, got, want)
	}
	if _, err := e.Stats("nowhere"); err == nil {
		t.Error("an interface that is not there has statistics")
	}
}
