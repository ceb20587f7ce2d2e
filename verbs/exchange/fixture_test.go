package exchange

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"math"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rdma/sluice/ib"
)

// message is one of the messages in testdata.
type message struct {
	client bool
	bytes  []byte
}

// recorded returns what perftest's programs said, by program.
func recorded(t testing.TB) map[string][]message {
	t.Helper()
	f, err := os.Open("testdata/perftest-4.5.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all, program := map[string][]message{}, ""
	for lines := bufio.NewScanner(f); lines.Scan(); {
		who, text, ok := strings.Cut(lines.Text(), " ")
		switch {
		case who == "" || who == "#":
		case !ok:
			program = who
		default:
			s, err := strconv.Unquote(text)
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			all[program] = append(all[program], message{who == "client", []byte(s)})
		}
	}
	if len(all) != 7 {
		t.Fatalf("%d programs, want 7", len(all))
	}
	return all
}

// of returns the messages of one side.
func of(all []message, client bool) (side [][]byte) {
	for _, m := range all {
		if m.client == client {
			side = append(side, m.bytes)
		}
	}
	return side
}

// play is one end that says what was recorded, by means of the package. The
// other end's messages decide nothing about it: which comes next is known from
// its own.
func play(t *testing.T, c *Conn, own [][]byte) {
	t.Helper()
	for len(own) > 0 {
		switch m := own[0]; len(m) {
		case 16:
			g := Greeting{
				Version:     string(bytes.TrimRight(m, "\x00")),
				CycleBuffer: int(binary.BigEndian.Uint32(own[1])), CacheLine: int(binary.BigEndian.Uint32(own[2])),
				MTU: 128 << (own[3][0] - '0'),
			}
			agreed, err := c.Greet(g)
			if err != nil {
				t.Error(err)
				return
			}
			if diff := cmp.Diff(Greeting{"6.06", 4096, 64, 1024}, agreed); diff != "" {
				t.Error(diff)
			}
			own = own[4:]
		case destSize:
			d, err := parseDest(m)
			if err != nil {
				t.Error(err)
				return
			}
			if len(own) == 2 && len(own[1]) == 5 {
				if err := c.Finish(d); err != nil {
					t.Error(err)
				}
				return
			}
			remote, err := c.Swap(d)
			if err != nil {
				t.Error(err)
				return
			}
			if last := remote.GID.As4()[3]; last != 5-d.GID.As4()[3] {
				t.Errorf("%v says that its peer is %v", d.GID, remote.GID)
			}
			own = own[1:]
		case 8:
			w := func(i int) uint64 { return binary.BigEndian.Uint64(own[i]) }
			r := Report{w(0), w(1), math.Float64frombits(w(2)), math.Float64frombits(w(3)), math.Float64frombits(w(4))}
			remote, err := c.SwapReports(r)
			if err != nil {
				t.Error(err)
				return
			}
			if !c.Client() && remote.Iterations != 20 {
				t.Errorf("the client reports %+v", remote)
			}
			own = own[5:]
		default:
			t.Errorf("%d bytes: %q", len(m), m)
			return
		}
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// Each end, played by this package against the recorded bytes of the other, says
// byte for byte what perftest said, and in the same writes.
func TestSaysWhatPerftestSays(t *testing.T) {
	for program, all := range recorded(t) {
		for _, client := range []bool{true, false} {
			t.Run(program+map[bool]string{true: "/client", false: "/server"}[client], func(t *testing.T) {
				mine, theirs := net.Pipe()
				done := make(chan struct{})
				go func() {
					defer close(done)
					play(t, New(mine, client, 5*time.Second), of(all, client))
				}()
				if err := theirs.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
					t.Fatal(err)
				}
				// The recording's order of the two "done" is the network's.
				var order []message
				for _, m := range all {
					if len(m.bytes) != 5 {
						order = append(order, m)
					}
				}
				for i, m := range order {
					if m.client != client {
						if _, err := theirs.Write(m.bytes); err != nil {
							t.Fatalf("message %d: %v", i, err)
						}
						continue
					}
					got := make([]byte, 200)
					n, err := theirs.Read(got)
					if err != nil {
						t.Fatalf("message %d: %v", i, err)
					}
					if !bytes.Equal(got[:n], m.bytes) {
						t.Fatalf("message %d: %q, want %q", i, got[:n], m.bytes)
					}
				}
				if !client && program != "write_lat" {
					if _, err := theirs.Write([]byte("done\x00")); err != nil {
						t.Error(err)
					}
				}
				last := make([]byte, 10)
				n, err := theirs.Read(last)
				if string(last[:n]) != "done\x00" && (program != "write_lat" || err != io.EOF) {
					t.Errorf("at the end %q, %v", last[:n], err)
				}
				theirs.Close()
				<-done
			})
		}
	}
}

// Two ends of this package run every program's exchange with each other.
func TestItself(t *testing.T) {
	for program, all := range recorded(t) {
		t.Run(program, func(t *testing.T) {
			a, b := net.Pipe()
			done := make(chan struct{})
			go func() {
				defer close(done)
				play(t, New(a, true, 5*time.Second), of(all, true))
			}()
			play(t, New(b, false, 5*time.Second), of(all, false))
			<-done
		})
	}
}

func TestDest(t *testing.T) {
	for _, m := range recorded(t)["read_bw"] {
		if len(m.bytes) != destSize {
			continue
		}
		d, err := parseDest(m.bytes)
		if err != nil {
			t.Fatal(err)
		}
		want := Dest{OutReads: 128, QPN: 0x12, PSN: 0x7d18d2, RKey: 0x309, VAddr: 0x55ca96591000, GID: netip.MustParseAddr("10.77.0.3")}
		if !m.client {
			want = Dest{OutReads: 128, QPN: 0x12, PSN: 0xed7562, RKey: 0x393, VAddr: 0x55d30afc6000, GID: netip.MustParseAddr("10.77.0.2")}
		}
		if d != want {
			t.Errorf("%+v, want %+v", d, want)
		}
	}
}

func TestMTUCodes(t *testing.T) {
	for mtu, code := range map[ib.MTU]byte{256: '1', 512: '2', 1024: '3', 2048: '4', 4096: '5'} {
		if got := mtuCode(mtu); got != code {
			t.Errorf("%d is told as %c, want %c", mtu, got, code)
		}
	}
}
