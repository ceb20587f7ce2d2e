package softroce

import (
	"net/netip"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Where an address is taken, the message names one that is not.
func TestTakenNamesAnotherAddress(t *testing.T) {
	for addr, want := range map[string]string{
		"127.0.0.1": "such as soft:127.0.0.2", "127.0.0.2": "such as soft:127.0.0.3", "::1": "such as soft:127.0.0.2",
		"127.255.255.255": "such as soft:127.0.0.2", "192.0.2.1": "another address, as soft:ADDRESS",
	} {
		err := new(device).openError(netip.AddrPortFrom(netip.MustParseAddr(addr), 4791), os.NewSyscallError("bind", unix.EADDRINUSE))
		if !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v", addr, err)
		}
	}
}
