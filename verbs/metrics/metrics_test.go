package metrics

import (
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/Mellanox/rdmamap"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	_ "github.com/sluice-rdma/sluice/cc/timely"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/paced"
	_ "github.com/sluice-rdma/sluice/verbs/simverbs"
)

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// sysfs lays files out as the kernel does, the class's entries links to the
// devices', and makes rdmamap read them.
func sysfs(t *testing.T, files map[string]string) {
	t.Helper()
	root, devices := t.TempDir(), t.TempDir()
	for name, text := range files {
		device, _, _ := strings.Cut(name, "/")
		if err := os.Symlink(filepath.Join(devices, device), filepath.Join(root, device)); err != nil && !os.IsExist(err) {
			t.Fatal(err)
		}
		path := filepath.Join(devices, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	before := rdmamap.RdmaClassDir
	rdmamap.RdmaClassDir = root
	t.Cleanup(func() { rdmamap.RdmaClassDir = before })
}

func TestKernelCountersKeepTheirNames(t *testing.T) {
	sysfs(t, map[string]string{
		"mlx5_0/ports/1/hw_counters/np_cnp_sent":     "12\n",
		"mlx5_0/ports/1/hw_counters/out_of_sequence": "3\n",
		"mlx5_0/ports/1/hw_counters/lifespan":        "10\n",
		"mlx5_0/ports/1/counters/port_xmit_data":     "18446744073709551615\n",
		"mlx5_0/ports/2/counters/port_xmit_data":     "5\n",
		"mlx5_0/ports/2/hw_counters/link_downed":     "1\n",
		"mlx5_0/ports/2/counters/link_downed":        "7\n",
		"rxe0/ports/1/hw_counters/sent_pkts":         "7\n",
	})
	want := `
		# HELP rdma_device_info An RDMA device of the kernel and its network interface; always 1.
		# TYPE rdma_device_info gauge
		rdma_device_info{device="mlx5_0",netdev=""} 1
		rdma_device_info{device="rxe0",netdev=""} 1
		# HELP rdma_link_downed_total The counter link_downed of an RDMA device's port.
		# TYPE rdma_link_downed_total counter
		rdma_link_downed_total{device="mlx5_0",port="2"} 1
		# HELP rdma_np_cnp_sent_total The counter np_cnp_sent of an RDMA device's port.
		# TYPE rdma_np_cnp_sent_total counter
		rdma_np_cnp_sent_total{device="mlx5_0",port="1"} 12
		# HELP rdma_out_of_sequence_total The counter out_of_sequence of an RDMA device's port.
		# TYPE rdma_out_of_sequence_total counter
		rdma_out_of_sequence_total{device="mlx5_0",port="1"} 3
		# HELP rdma_port_xmit_data_total The counter port_xmit_data of an RDMA device's port.
		# TYPE rdma_port_xmit_data_total counter
		rdma_port_xmit_data_total{device="mlx5_0",port="1"} 1.8446744073709552e+19
		rdma_port_xmit_data_total{device="mlx5_0",port="2"} 5
		# HELP rdma_sent_pkts_total The counter sent_pkts of an RDMA device's port.
		# TYPE rdma_sent_pkts_total counter
		rdma_sent_pkts_total{device="rxe0",port="1"} 7
	`
	if err := testutil.CollectAndCompare(NewKernel(quiet), strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

func TestNoDevicesIsNoError(t *testing.T) {
	sysfs(t, nil)
	if n := testutil.CollectAndCount(NewKernel(quiet)); n != 0 {
		t.Errorf("%d metrics of no device", n)
	}
}

// written gives the text of what a gatherer has, a line a sample.
func written(t *testing.T, g prometheus.Gatherer) []string {
	t.Helper()
	text := new(strings.Builder)
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if err := write(text, f); err != nil {
			t.Fatal(err)
		}
	}
	return strings.Split(strings.TrimSpace(text.String()), "\n")
}

// pacedPair sends a Write of 100 kB from one paced device to another.
func pacedPair(t *testing.T) (a, b *paced.Shim) {
	t.Helper()
	return pacedPairOn(t, "sim:metrics/h", NewDevices())
}

// pacedPairOn does so on the first two hosts of a network, which collected has from
// the start.
func pacedPairOn(t *testing.T, hosts string, collected *Devices) (a, b *paced.Shim) {
	t.Helper()
	open := func(name string) *paced.Shim {
		dev, err := verbs.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		c := paced.DefaultConfig()
		c.Scheme = "timely"
		shim, err := paced.Wrap(dev, c)
		if err != nil {
			t.Fatal(err)
		}
		collected.Add(shim)
		return shim
	}
	a, b = open(hosts+"0"), open(hosts+"1")
	const n = 100_000
	type end struct {
		pd verbs.PD
		cq verbs.CQ
		qp verbs.QP
		mr verbs.MR
		me verbs.Endpoint
	}
	make := func(dev *paced.Shim) (e end) {
		pd, err1 := dev.AllocPD()
		cq, err2 := dev.CreateCQ(verbs.CQInitAttr{CQE: 16})
		mr, err3 := pd.RegMR(make([]byte, n), ib.AccessLocalWrite|ib.AccessRemoteWrite)
		qp, err4 := pd.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 1}})
		gid, err5 := dev.GID(1, 0)
		for _, err := range []error{err1, err2, err3, err4, err5} {
			if err != nil {
				t.Fatal(err)
			}
		}
		return end{pd, cq, qp, mr, verbs.Endpoint{GID: gid, QPN: qp.Num(), PSN: 7}}
	}
	x, y := make(a), make(b)
	for _, err := range []error{verbs.ConnectRC(x.qp, x.me, y.me, verbs.DefaultRC()), verbs.ConnectRC(y.qp, y.me, x.me, verbs.DefaultRC())} {
		if err != nil {
			t.Fatal(err)
		}
	}
	err := verbs.Run(a, func() error {
		_, err := x.qp.PostSend([]verbs.SendWR{{
			Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled, SGL: []verbs.SGE{verbs.SGEOf(x.mr, 0, n)},
			RemoteAddr: y.mr.Addr(), RKey: y.mr.RKey(),
		}})
		if err == nil {
			_, err = verbs.Drain(a, x.cq, new([1]verbs.WC)[:], 1e9)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return a, b
}

func TestPacedQueuePairs(t *testing.T) {
	a, b := pacedPair(t)
	reg := prometheus.NewPedanticRegistry()
	devices := NewDevices()
	if err := reg.Register(devices); err != nil {
		t.Fatal(err)
	}
	devices.Add(a)
	removeB := devices.Add(b)
	twice := devices.Add(a)
	all := written(t, reg)
	for _, want := range []string{
		`^sluice_qp_info{device="sim:metrics/h0",engine="timely",qpn="0x[0-9a-f]{4,6}",state="RTS"} 1$`,
		`^sluice_qp_info{device="sim:metrics/h0#2",`,
		`^sluice_qp_segments_total{device="sim:metrics/h0",qpn="[^"]*"} 7$`,
		`^sluice_qp_segment_bytes_total{device="sim:metrics/h0",qpn="[^"]*"} 100000$`,
		`^sluice_qp_messages_total{device="sim:metrics/h1",qpn="[^"]*"} 0$`,
		`^sluice_qp_rtt_seconds_count{device="sim:metrics/h0",qpn="[^"]*"} 7$`,
		`^sluice_qp_rtt_seconds_bucket{device="sim:metrics/h0",qpn="[^"]*",le="\+Inf"} 7$`,
		`^sluice_qp_rate_bps{device="sim:metrics/h0",qpn="[^"]*"} [1-9]`,
		`^sluice_qp_rate_floor_bps{device="sim:metrics/h0",qpn="[^"]*"} 1e\+08$`,
		`^sluice_qp_rate_ceiling_bps{device="sim:metrics/h0",qpn="[^"]*"} [1-9]`,
		`^sluice_qp_cuts_total{cause="rtt",device="sim:metrics/h0",qpn="[^"]*"} [0-9]+$`,
		`^sluice_qp_engine{device="sim:metrics/h0",qpn="[^"]*",variable="gradient"} `,
		`^sluice_calibration_trusted{device="sim:metrics/h0",reason="[a-z ]+"} `,
		`^sluice_posts_total{device="sim:metrics/h0"} [1-9]`,
	} {
		re := regexp.MustCompile(want)
		if n := len(slices.DeleteFunc(slices.Clone(all), func(s string) bool { return !re.MatchString(s) })); n != 1 {
			t.Errorf("%d lines match %s", n, want)
		}
	}
	if slices.ContainsFunc(all, func(s string) bool { return strings.HasPrefix(s, "sluice_qp_window_bytes") }) {
		t.Error("TIMELY has a window")
	}
	removeB()
	twice()
	if slices.ContainsFunc(written(t, reg), func(s string) bool {
		return strings.Contains(s, "h1") || strings.Contains(s, "#2")
	}) {
		t.Error("a device that was removed is collected")
	}
}

type counts map[string]uint64

func (c counts) Counters() map[string]uint64 { return c }

func TestACountingDevice(t *testing.T) {
	dev := struct {
		verbs.Device
		counts
	}{named("soft:lo"), counts{"np_cnp_sent": 4, "Odd-Name": 5}}
	devices := NewDevices()
	devices.Add(dev)
	reg := prometheus.NewRegistry()
	reg.MustRegister(devices)
	all := written(t, reg)
	for _, want := range []string{`rdma_np_cnp_sent_total{device="soft:lo",port="1"} 4`, `rdma_odd_name_total{device="soft:lo",port="1"} 5`} {
		if !slices.Contains(all, want) {
			t.Errorf("%s is not in %q", want, all)
		}
	}
}

type device struct {
	verbs.Device
	name string
}

func (d device) Name() string { return d.name }

func named(name string) verbs.Device { return device{name: name} }

// What one process publishes another collects, with its pid; what is left of a
// process that is gone goes, and one that answers nonsense holds nobody up.
func TestProcesses(t *testing.T) {
	a, _ := pacedPair(t)
	dir := filepath.Join(t.TempDir(), "run")
	t.Setenv("SLUICE_RUN", dir)
	t.Setenv("SLUICE_METRICS", "1")
	devices, stop, err := FromEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	devices.Add(a)

	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "1.sock"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}
	odd, err := net.Listen("unix", filepath.Join(dir, "2.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer odd.Close()
	go func() {
		for {
			c, err := odd.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "nonsense\n")
			_ = c.Close()
		}
	}()

	processes := NewProcesses(Directory(), quiet)
	own := prometheus.NewRegistry()
	all := written(t, prometheus.Gatherers{own, processes})
	re := regexp.MustCompile(`^sluice_qp_segments_total{device="sim:metrics/h0",pid="[0-9]+",qpn="[^"]*"} 7$`)
	if !slices.ContainsFunc(all, re.MatchString) {
		t.Errorf("no line matches %s", re)
	}
	if _, err := os.Stat(filepath.Join(dir, "1.sock")); !os.IsNotExist(err) {
		t.Errorf("the socket of a process that is gone is still there: %v", err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory is %v, %v: for its owner alone", info.Mode(), err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*.sock")); len(left) != 1 {
		t.Errorf("sockets left: %v", left)
	}
}

func TestEnvironment(t *testing.T) {
	for value, fails := range map[string]bool{"": false, "0": false, "maybe": true} {
		t.Setenv("SLUICE_METRICS", value)
		devices, stop, err := FromEnvironment()
		if (err != nil) != fails || devices == nil {
			t.Errorf("%q: %v", value, err)
		}
		if err := stop(); err != nil {
			t.Errorf("%q: %v", value, err)
		}
	}
}

// Another user's directory could answer in this process's name.
func TestPublishInAnothersDirectory(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a directory away")
	}
	dir := filepath.Join(t.TempDir(), "run")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, 12345, 12345); err != nil {
		t.Fatal(err)
	}
	if stop, err := Publish(prometheus.NewRegistry(), dir); err == nil || !strings.Contains(err.Error(), "belongs to user 12345") {
		t.Errorf("published where another could: %v", err)
		if stop != nil {
			_ = stop()
		}
	}
}

// The directory holds the socket while it answers, and nothing afterwards.
func TestPublishLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	names := func() (all []string) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			all = append(all, e.Name())
		}
		return all
	}
	stop, err := Publish(prometheus.NewRegistry(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := names(), []string{strconv.Itoa(os.Getpid()) + ".sock"}; !slices.Equal(got, want) {
		t.Errorf("the directory holds %v, want %v", got, want)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if got := names(); len(got) > 0 {
		t.Errorf("left behind: %v", got)
	}
}
