package softroce

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/internal/watcher/watchertest"
)

func TestUnusableAddresses(t *testing.T) {
	for _, c := range []struct {
		flags int
		want  string
	}{
		{0, ""},
		{unix.IFA_F_PERMANENT, ""},
		{unix.IFA_F_DEPRECATED, ""},
		{unix.IFA_F_TENTATIVE, "tentative"},
		{unix.IFA_F_PERMANENT | unix.IFA_F_TENTATIVE, "tentative"},
		// RFC 4429: in use while it is checked.
		{unix.IFA_F_TENTATIVE | unix.IFA_F_OPTIMISTIC, ""},
		{unix.IFA_F_DADFAILED, "duplicate"},
		{unix.IFA_F_TENTATIVE | unix.IFA_F_DADFAILED, "duplicate"},
	} {
		if got := unusable(c.flags); c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("flags %#x: %q, want %q", c.flags, got, c.want)
		}
	}
}

// An interface without carrier keeps its IPv6 addresses tentative: the kernel binds
// no socket to them.
func TestTentativeAddress(t *testing.T) {
	ns := watchertest.Namespace(t)
	watchertest.In(t, ns, func() {
		pair := netlink.NewVeth(netlink.NewLinkAttrs())
		pair.Name, pair.PeerName, pair.MTU = "v0", "v1", 9000
		if err := netlink.LinkAdd(pair); err != nil {
			t.Skipf("no virtual interfaces here: %v", err)
		}
		v0, err := netlink.LinkByName("v0")
		if err != nil {
			t.Fatal(err)
		}
		address := func(text string, flags int) {
			t.Helper()
			a, err := netlink.ParseAddr(text)
			if err != nil {
				t.Fatal(err)
			}
			a.Flags = flags
			if err := netlink.AddrAdd(v0, a); errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EACCES) {
				t.Skipf("no IPv6 here: %v", err)
			} else if err != nil {
				t.Fatal(err)
			}
		}
		if err := netlink.LinkSetUp(v0); err != nil {
			t.Fatal(err)
		}
		address("fd48::1/64", 0)
		const object = "soft:v0"
		if _, err := verbs.Open(object); !errors.Is(err, verbs.ErrNoDevice) || !strings.Contains(err.Error(), "fd48::1 is tentative") {
			t.Errorf("nothing but a tentative address: %v", err)
		}
		address("10.48.0.1/24", 0)
		address("fd48::2/64", unix.IFA_F_NODAD)
		dev, err := verbs.Open(object)
		if err != nil {
			t.Fatal(err)
		}
		defer dev.Close()
		port, err := dev.Port(1)
		if err != nil || port.GIDs != 2 {
			t.Errorf("port %+v, %v: expected the two addresses that can be used", port, err)
		}
		for i, want := range []string{"10.48.0.1", "fd48::2"} {
			if gid, err := dev.GID(1, i); err != nil || gid != netip.MustParseAddr(want) {
				t.Errorf("GID %d: %v, %v; want %s", i, gid, err, want)
			}
		}
		// Asked for by name, it is refused with the reason.
		if _, err := verbs.Open("soft:fd48::1"); !errors.Is(err, verbs.ErrNoDevice) || !strings.Contains(err.Error(), "fd48::1 of v0 is tentative") {
			t.Errorf("a tentative address: %v", err)
		}
	})
}
