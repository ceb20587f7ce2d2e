package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
	"golang.org/x/sys/unix"
)

// Our own traffic, which the kernel has not cut where it is captured, is not corrupt.
func TestPcapOfOurOwnTraffic(t *testing.T) {
	const all = 0x0300 // ETH_P_ALL in network order
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, all)
	if errors.Is(err, unix.EPERM) {
		t.Skipf("needs CAP_NET_RAW: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(fd) }()
	for _, err := range []error{
		unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: 1}),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 16<<20),
	} {
		if err != nil {
			t.Skipf("the loopback interface can't be captured from: %v", err)
		}
	}
	pid := os.Getpid()
	host := fmt.Sprintf("127.%d.%d.", 64+pid>>8&63, pid&255)
	if status, out, errs := ran("perf", "write_bw", "-d", "soft:"+host+"1", "--peer", "soft:"+host+"2", "-n", "8", "-s", "64KiB"); status != exitOK {
		t.Fatalf("%s%s", out, errs)
	}
	name := filepath.Join(t.TempDir(), "lo.pcap")
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	w := pcapgo.NewWriter(file)
	if err := w.WriteFileHeader(1<<18, layers.LinkTypeEthernet); err != nil {
		t.Fatal(err)
	}
	ours := []byte{127, byte(64 + pid>>8&63), byte(pid)}
	for b := make([]byte, 1<<17); ; {
		n, _, err := unix.Recvfrom(fd, b, unix.MSG_DONTWAIT)
		if err != nil {
			break // all has been read
		}
		if n < 34 || string(b[26:29]) != string(ours) {
			continue
		}
		if err := w.WritePacket(gopacket.CaptureInfo{Timestamp: time.Unix(1, 0), CaptureLength: n, Length: n}, b[:n]); err != nil {
			t.Fatal(err)
		}
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	status, out, errs := ran("pcap", "--json", name)
	var d pcapDocument
	if err := json.Unmarshal([]byte(out), &d); err != nil || status != exitOK {
		t.Fatalf("%v: %s", err, errs)
	}
	if r := d.Capture; r.GoodICRCs < 100 || r.BadICRCs != 0 || len(r.Malformed) != 0 || r.SplitFrames == 0 {
		t.Errorf("%d good, %d bad, %v, %d split", r.GoodICRCs, r.BadICRCs, r.Malformed, r.SplitFrames)
	}
}

// ran runs the command and returns its exit status and what it printed.
func ran(args ...string) (status int, stdout, stderr string) {
	var out, errs strings.Builder
	status = run(args, &out, &errs)
	return status, out.String(), errs.String()
}
