package virtual_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-rdma/sluice/verbs"
	_ "github.com/sluice-rdma/sluice/verbs/softroce"
	"github.com/sluice-rdma/sluice/verbs/virtual"
)

// library builds libsluice-virtual.so as make does, once.
var library = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "sluice-virtual-test-")
	if err != nil {
		return "", err
	}
	if out, err := exec.Command("make", "-s", "-C", "../..", "libsluice-virtual", "LIB="+dir).CombinedOutput(); err != nil {
		return "", fmt.Errorf("make libsluice-virtual: %w\n%s", err, out)
	}
	return filepath.Join(dir, "libsluice-virtual.so"), nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if built {
		if lib, err := library(); err == nil {
			_ = os.RemoveAll(filepath.Dir(lib))
		}
	}
	os.Exit(code)
}

var built bool

func virtualLibrary(t *testing.T) string {
	t.Helper()
	for _, tool := range []string{"make", "cc"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is missing: %v", tool, err)
		}
	}
	built = true
	lib, err := library()
	if err != nil {
		t.Fatal(err)
	}
	return lib
}

// devices makes a host of n devices at free addresses of the loopback.
func devices(t *testing.T, n int, c virtual.Config) (h *virtual.Host, addrs []string) {
	t.Helper()
	return devicesOf(t, n, c, func(verbs.Device) {})
}

// devicesOf is devices, and says what the back ends are.
func devicesOf(t *testing.T, n int, c virtual.Config, backend func(verbs.Device)) (h *virtual.Host, addrs []string) {
	t.Helper()
	var all []*virtual.Device
	for last := 1; len(all) < n; last++ {
		if last > 250 {
			t.Fatal("no address of 127.9.9.0/24 is free")
		}
		addr := fmt.Sprintf("127.9.9.%d", last)
		soft, err := verbs.Open("soft:" + addr)
		if errors.Is(err, verbs.ErrBusy) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		c.Model, c.Name, c.Backend = "cx6dx", fmt.Sprintf("mlx5_%d", len(all)), soft
		backend(soft)
		d, err := virtual.Open(c)
		if err != nil {
			t.Fatal(err)
		}
		all, addrs = append(all, d), append(addrs, addr)
	}
	h, err := virtual.Serve(all...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h, addrs
}

// freePort is a TCP port that nobody listens at.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

// listens reports whether a process listens at a TCP port.
func listens(port string) bool {
	n, _ := strconv.Atoi(port)
	for _, name := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		table, _ := os.ReadFile(name)
		for line := range strings.SplitSeq(string(table), "\n") {
			const listen = "0A"
			f := strings.Fields(line)
			if len(f) > 3 && strings.HasSuffix(f[1], fmt.Sprintf(":%04X", n)) && f[3] == listen {
				return true
			}
		}
	}
	return false
}

// program starts a program with the devices.
func program(t *testing.T, ctx context.Context, env []string, line string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	words := strings.Fields(line)
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	var out bytes.Buffer
	cmd.Env, cmd.Stdout, cmd.Stderr = env, &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, &out
}

// programs are others' programs as Debian has them: the server's arguments and the
// client's, to which its peer's address is added. PORT is a TCP port. Those with Long take longer
// together than tests may.
var programs = []struct {
	name, server, client string
	cm                   bool // the server listens by rdma_cm, and not by TCP
	one                  bool // over one device
	env                  string
	long                 bool
}{
	{name: "ibv_rc_pingpong", server: "-g 0 -n 50 -p PORT -c"},
	{name: "ibv_rc_pingpong", server: "-g 0 -n 200 -p PORT -e -c"},
	{name: "ibv_rc_pingpong", server: "-g 0 -n 50 -p PORT -t", long: true},
	{name: "ibv_rc_pingpong", server: "-g 0 -n 200 -p PORT -e -N -s 100000", long: true},
	{name: "ibv_uc_pingpong", server: "-g 0 -n 200 -p PORT -e"},
	{name: "ibv_uc_pingpong", server: "-g 0 -n 50 -p PORT", long: true},
	{name: "ibv_ud_pingpong", server: "-g 0 -n 200 -p PORT -e -s 1024"},
	{name: "ibv_ud_pingpong", server: "-g 0 -n 50 -p PORT -s 1024", long: true},
	{name: "ibv_srq_pingpong", server: "-g 0 -n 200 -p PORT -e -q 4"},
	{name: "ibv_srq_pingpong", server: "-g 0 -n 50 -p PORT -q 4", long: true},

	{name: "ib_write_bw", server: "-F -x 0 -p PORT -n 100 -s 65536"},
	{name: "ib_write_bw", server: "-F -x 0 -p PORT -n 100 -s 4096 --use_old_post_send", long: true},
	{name: "ib_write_bw", server: "-F -x 0 -p PORT -n 100 -s 4096 -c UC", long: true},
	{name: "ib_write_bw", server: "-F -x 0 -p PORT -n 100 -s 4096 -q 4 -b", long: true},
	{name: "ib_write_bw", server: "-F -x 0 -p PORT -n 128 -s 4096 -l 8 -Q 4", long: true},
	{name: "ib_write_bw", server: "-F -x 0 -p PORT -n 10 -a", long: true},
	{name: "ib_write_bw", server: "-F -R -p PORT -n 100 -s 4096", cm: true, long: true},
	{name: "ib_write_lat", server: "-F -x 0 -p PORT -n 20 -s 8"},
	{name: "ib_write_lat", server: "-F -x 0 -p PORT -n 20 -s 8 --use_old_post_send", long: true},
	{name: "ib_write_lat", server: "-F -x 0 -p PORT -n 20 -s 64 -I 64 -c UC", long: true},
	{name: "ib_read_bw", server: "-F -x 0 -p PORT -n 100 -s 65536 -e"},
	{name: "ib_read_bw", server: "-F -x 0 -p PORT -n 100 -s 4096 --use_old_post_send -b", long: true},
	{name: "ib_read_lat", server: "-F -x 0 -p PORT -n 20 -s 8"},
	{name: "ib_read_lat", server: "-F -x 0 -p PORT -n 100 -s 8 -e --use_old_post_send", long: true},
	{name: "ib_send_bw", server: "-F -x 0 -p PORT -n 100 -s 4096 -e"},
	{name: "ib_send_bw", server: "-F -x 0 -p PORT -n 100 -s 1024 -c UD --use_old_post_send"},
	{name: "ib_send_bw", server: "-F -x 0 -p PORT -n 100 -s 1024 -c UC", long: true},
	{name: "ib_send_bw", server: "-F -x 0 -p PORT -n 100 -s 1024 --use-srq -q 2"},
	{name: "ib_send_bw", server: "-F -x 0 -p PORT -n 100 -s 64 -I 64 -c UD -e", long: true},
	{name: "ib_send_lat", server: "-F -x 0 -p PORT -n 100 -s 8 -e"},
	{name: "ib_send_lat", server: "-F -x 0 -p PORT -n 20 -s 8 -c UD", long: true},
	{name: "ib_send_lat", server: "-F -x 0 -p PORT -n 20 -s 8 -c UC --use_old_post_send", long: true},
	{name: "ib_atomic_bw", server: "-F -x 0 -p PORT -n 100"},
	{name: "ib_atomic_bw", server: "-F -x 0 -p PORT -n 100 -A CMP_AND_SWAP -b --use_old_post_send", long: true},
	{name: "ib_atomic_lat", server: "-F -x 0 -p PORT -n 20 -A CMP_AND_SWAP"},
	{name: "ib_atomic_lat", server: "-F -x 0 -p PORT -n 100 -e", long: true},

	{name: "rping", server: "-s -C 10 -V -a ADDR -p PORT", client: "-c -C 10 -V -p PORT -a", cm: true},
	{name: "ucmatose", server: "-b ADDR -p PORT", client: "-p PORT -s", cm: true},
	{name: "udaddy", server: "-b ADDR", client: "-s", cm: true}, // its port is always 7174,

	{name: "ucx_perftest", server: "-p PORT", client: "-p PORT -t tag_bw -n 100 -s 4096", one: true, env: "UCX_TLS=rc_mlx5,ud_mlx5"},
	{name: "ucx_perftest", server: "-p PORT", client: "-p PORT -t tag_lat -n 20 -s 64", one: true, env: "UCX_TLS=rc_verbs,ud_verbs", long: true},
	{name: "ucx_perftest", server: "-p PORT", client: "-p PORT -t ucp_put_lat -n 20", one: true, env: "UCX_TLS=rc_mlx5,ud_mlx5", long: true},
}

// TestPrograms has two processes of each program talk to each other: over one device,
// and over two.
func TestPrograms(t *testing.T) {
	lib := virtualLibrary(t)
	for i, p := range programs {
		t.Run(fmt.Sprintf("%s %s", p.name, p.server), func(t *testing.T) {
			if p.long && testing.Short() {
				t.Skip("takes long together with its like: -short")
			}
			if _, err := exec.LookPath(p.name); err != nil {
				t.Skipf("%s is missing: %v", p.name, err)
			}
			number := 1 + i%2
			if p.one {
				number = 1
			}
			h, addrs := devices(t, number, virtual.Config{})
			env := append(h.Environ(os.Environ(), lib), p.env)
			fill := strings.NewReplacer("PORT", freePort(t), "ADDR", addrs[0])
			line, peer := p.name+" "+fill.Replace(p.server), p.name+" "+fill.Replace(p.client)
			if p.client == "" {
				peer = line
			}
			other := ""
			if len(addrs) > 1 && !p.cm { // the client has the second device
				line, other = line+" -d mlx5_0", " -d mlx5_1"
			}
			address := addrs[0]
			if !p.cm && !p.one {
				address = "127.0.0.1"
			}
			talk(t, env, line, peer+other+" "+address, fill.Replace("PORT"), p.cm)
		})
	}
}

// talk runs a server and a client, and fails unless both succeed.
func talk(t *testing.T, env []string, server, client, port string, cm bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, serverSays := program(t, ctx, env, server)
	ended := make(chan error, 1)
	go func() { ended <- s.Wait() }()
	for !cm && !listens(port) {
		select {
		case err := <-ended:
			t.Fatalf("%s: ended with %v before it listened\n%s", server, err, serverSays)
		case <-time.After(5 * time.Millisecond):
		}
	}
	for {
		c, clientSays := program(t, ctx, env, client)
		err := c.Wait()
		if err == nil {
			break
		}
		// By rdma_cm, who comes too early is rejected.
		select {
		case <-ended:
		case <-time.After(20 * time.Millisecond):
			if cm && ctx.Err() == nil {
				continue
			}
		}
		cancel()
		t.Fatalf("%s: %v\n%s\n%s:\n%s", client, err, clientSays, server, serverSays)
	}
	// At its end rping closes the channel that its thread may be about to wait at.
	if err := <-ended; err != nil && !strings.HasSuffix(serverSays.String(), "state 10\nrdma_get_cm_event: Bad file descriptor\n") {
		t.Fatalf("%s: %v\n%s", server, err, serverSays)
	}
}

// TestDevinfo reads what ibv_devinfo prints of a device.
func TestDevinfo(t *testing.T) {
	if _, err := exec.LookPath("ibv_devinfo"); err != nil {
		t.Skipf("ibv_devinfo is missing: %v", err)
	}
	lib := virtualLibrary(t)
	h, addrs := devices(t, 1, virtual.Config{})
	cmd := exec.CommandContext(t.Context(), "ibv_devinfo", "-v")
	cmd.Env = h.Environ(os.Environ(), lib)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text := strings.Join(strings.Fields(string(out)), " ")
	for _, want := range []string{
		"hca_id: mlx5_0", "fw_ver: 22.35.2000", "vendor_part_id: 4125", "board_id: MT_0000000359", "state: PORT_ACTIVE", "link_layer: Ethernet",
		"hca_core_clock: 1000000kHZ", "timestamp_mask: 0x7fffffffffffffff", "qp_rate_limit_max: 100000000kbps supported_qp: SUPPORT_RAW_PACKET",
		"max_qp_wr: 16384", "max_mw: 0", "GID[ 0]: ::ffff:" + addrs[0] + ", RoCE v2",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
}

// compiled compiles a program of testdata, which uses libibverbs and libmlx5.
func compiled(t *testing.T, name string) string {
	t.Helper()
	const header = "/usr/include/infiniband/mlx5dv.h"
	if _, err := os.Stat(header); err != nil {
		t.Skipf("libibverbs-dev is not installed: %v", err)
	}
	file := filepath.Join(t.TempDir(), name)
	cc := exec.CommandContext(t.Context(), "cc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-o", file, "testdata/"+name+".c", "-lmlx5", "-libverbs", "-ldl")
	if out, err := cc.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cc, err, out)
	}
	return file
}

// A program reads compressed CQEs of both formats, as libmlx5 asks for them.
func TestCompression(t *testing.T) {
	lib := virtualLibrary(t)
	file := compiled(t, "compressed")
	h, _ := devices(t, 1, virtual.Config{})
	for _, format := range []string{"1", "2"} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		cmd, out := program(t, ctx, h.Environ(os.Environ(), lib), file+" "+format)
		if err := cmd.Wait(); err != nil {
			t.Errorf("format %s: %v\n%s", format, err, out)
		}
		t.Logf("format %s: %s", format, out)
	}
}
