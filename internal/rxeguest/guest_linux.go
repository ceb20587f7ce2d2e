package rxeguest

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

//go:embed init.sh
var initScript []byte

// bootTime bounds the start of a guest when the context doesn't. It takes some
// six seconds on an idle machine.
const bootTime = 4 * time.Minute

// Options say what a guest is like.
type Options struct {
	Name    string         // its host name, and what errors call it; "guest" if empty
	Memory  int            // MiB, 512 if zero
	CPUs    int            // 1 if zero
	Link    Link           // its eth0, of the Host that it runs on
	Addrs   []netip.Prefix // of eth0; the GIDs of rxe0 follow from them
	Counted bool           // its clock counts instructions, at 1 ns each, and the host's load does not reach its times; for one CPU
	Loss    float64        // percent of frames lost, each way: see SetLoss
	Capture string         // if not empty, a file that gets all frames of eth0, as pcap
	Dir     string         // if not empty, a folder of the host that the guest has at /job, read and write
	Root    string         // if not empty, a folder of the host that the guest has at /host, read only, with the guest's dev, proc, run, sys and tmp in it
}

// A Guest is a running machine. It is safe for concurrent use.
type Guest struct {
	name string
	dir  string // console, agent's socket, jobs
	qemu *exec.Cmd
	conn net.Conn // to the agent
	stop context.CancelFunc
	gone chan struct{} // closed when QEMU has ended

	mu   sync.Mutex // for writing to conn, too
	last int        // the newest job
	jobs map[int]*Process
}

// Boot starts a guest and waits until it has run its init and configured eth0 and
// rxe0. The caller closes it before the Host.
func (im *Image) Boot(ctx context.Context, h *Host, o Options) (_ *Guest, err error) {
	o.Name = cmp.Or(o.Name, "guest")
	ctx, cancel := context.WithTimeout(ctx, bootTime)
	defer cancel()
	dir, err := os.MkdirTemp(h.dir, "guest-")
	if err != nil {
		return nil, err
	}
	g := &Guest{name: o.Name, dir: dir, gone: make(chan struct{}), jobs: make(map[int]*Process)}
	if err := os.Mkdir(g.path("runs"), 0o755); err != nil {
		return nil, err
	}
	if err := im.writeInitramfs(g.path("initramfs"), o); err != nil {
		return nil, err
	}
	agent, err := net.Listen("unix", g.path("agent"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = agent.Close() }()

	// QEMU outlives ctx, which is about booting.
	life, stop := context.WithCancel(context.Background())
	g.stop = stop
	argv := append(im.program("qemu-system-x86_64"), im.arguments(g, o)...)
	g.qemu = h.Command(life, argv[0], argv[1:]...)
	g.qemu.Env = append(os.Environ(), "QEMU_MODULE_DIR="+im.path("host/qemu"))
	var said bytes.Buffer
	g.qemu.Stdout, g.qemu.Stderr = &said, &said
	if err := g.qemu.Start(); err != nil {
		stop()
		return nil, fmt.Errorf("%s: %w", g.name, err)
	}
	var qemuErr error
	go func() {
		qemuErr = g.qemu.Wait()
		close(g.gone)
		_ = agent.Close() // ends Accept
	}()
	defer func() {
		if err == nil {
			return
		}
		cause := context.Cause(ctx)
		g.kill()
		err = fmt.Errorf("%s did not boot: %w%s", g.name, err, g.ConsoleTail())
		if cause != nil {
			err = fmt.Errorf("%w\n%w", err, cause)
		}
		if qemuErr != nil && said.Len() > 0 {
			err = fmt.Errorf("%w\nQEMU (%w) said: %s", err, qemuErr, said.String())
		}
	}()
	unblock := context.AfterFunc(ctx, func() { _ = agent.Close() })
	defer unblock()
	if g.conn, err = agent.Accept(); err != nil {
		return nil, fmt.Errorf("no connection to its agent: %w", err)
	}
	ready := make(chan struct{})
	go g.listen(ready)
	select {
	case <-ready:
	case <-g.gone:
		return nil, errors.New("it ended before its agent was ready")
	case <-ctx.Done():
		return nil, errors.New("its agent was not ready in time")
	}
	if _, err := g.Run(ctx, "sh", "-c", configuration(o)); err != nil {
		return nil, err
	}
	if o.Loss != 0 {
		if err := g.SetLoss(ctx, o.Loss); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// writeInitramfs writes the image's initramfs with a second one behind it, which
// holds what this package adds to it.
func (im *Image) writeInitramfs(to string, o Options) error {
	var b bytes.Buffer
	c := &cpioWriter{w: &b}
	c.symlink("bin/sh", "dash")
	c.file("etc/hostname", 0o644, []byte(o.Name+"\n"))
	var shares string
	if o.Dir != "" {
		shares += "job\n"
	}
	if o.Root != "" {
		shares += "host\n"
	}
	c.file("etc/shares", 0o644, []byte(shares))
	c.file("init", 0o755, initScript)
	if err := c.close(); err != nil {
		return err
	}
	base, err := os.Open(im.path("initramfs.cpio"))
	if err != nil {
		return err
	}
	defer func() { _ = base.Close() }()
	f, err := os.Create(to)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if _, err := io.Copy(f, io.MultiReader(base, &b)); err != nil {
		return err
	}
	return f.Close()
}

// arguments returns QEMU's. The acceleration may be chosen by the environment
// variable SLUICE_RXE_ACCEL, "kvm" for instance: the default works everywhere.
func (im *Image) arguments(g *Guest, o Options) []string {
	accel := []string{"-accel", cmp.Or(os.Getenv("SLUICE_RXE_ACCEL"), "tcg,thread=multi")}
	cpu, more := "max", ""
	if o.Counted {
		accel = []string{"-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off"}
		// Each turn of a string instruction counts: moves of 8 bytes in place of one, and no
		// clearing of what is allocated.
		cpu, more = "max,-erms,-fsrm", " init_on_alloc=0"
	}
	args := append(accel,
		"-L", im.path("host/qemu"), "-nodefaults", "-no-user-config", "-nographic", "-no-reboot",
		"-machine", "q35", "-cpu", cpu,
		"-m", strconv.Itoa(cmp.Or(o.Memory, 512)), "-smp", strconv.Itoa(cmp.Or(o.CPUs, 1)),
		"-kernel", im.path("vmlinuz"), "-initrd", g.path("initramfs"),
		"-append", "console=ttyS0 loglevel=4 panic=-1 mitigations=off nokaslr no_timer_check nowatchdog random.trust_cpu=on rcupdate.rcu_cpu_stall_timeout=300"+more,
		"-serial", "file:"+g.path("console"),
		"-device", "virtio-serial-pci",
		"-chardev", "socket,id=agent,path="+quoteOption(g.path("agent")),
		"-device", "virtserialport,chardev=agent,name=agent",
		"-netdev", o.Link.netdev+",id=net0",
		"-device", fmt.Sprintf("virtio-net-pci,netdev=net0,mac=%s,romfile=,mrg_rxbuf=on,rx_queue_size=1024", o.Link.mac),
	)
	share := func(tag, dir, more string) {
		args = append(args, "-virtfs", "local,security_model=none,multidevs=remap,mount_tag="+tag+",path="+quoteOption(dir)+more)
	}
	share("runs", g.path("runs"), "")
	if o.Dir != "" {
		share("job", o.Dir, "")
	}
	if o.Root != "" {
		share("host", o.Root, ",readonly=on")
	}
	if o.Capture != "" {
		args = append(args, "-object", "filter-dump,id=dump0,netdev=net0,maxlen=65536,file="+quoteOption(o.Capture))
	}
	return args
}

// configuration is the script that gives a guest its eth0 and rxe0.
func configuration(o Options) string {
	var b strings.Builder
	fmt.Fprintf(&b, `set -e
hostname %s
until [ -e /sys/class/net/eth0 ]; do sleep 0.1; done
echo 0 >/proc/sys/net/ipv6/conf/eth0/accept_dad
ip link set eth0 mtu %d txqueuelen 20000
tc qdisc replace dev eth0 root pfifo
`, o.Name, o.Link.mtu)
	for _, a := range o.Addrs {
		fmt.Fprintf(&b, "ip addr add %s dev eth0\n", addrArgs(a))
	}
	b.WriteString(`ip link set eth0 up
rdma link add rxe0 type rxe netdev eth0
until rdma link show rxe0/1 | grep -q 'state ACTIVE'; do sleep 0.1; done
`)
	return b.String()
}

// SetLoss makes the guest's eth0 lose that percentage of all frames it sends and,
// independently, of all it receives; 0 ends it.
func (g *Guest) SetLoss(ctx context.Context, percent float64) error {
	script := `
tc qdisc del dev eth0 ingress 2>/dev/null
set -e
tc qdisc replace dev eth0 root pfifo
`
	if percent > 0 {
		netem := fmt.Sprintf("netem limit 20000 loss %g%%", percent)
		script = fmt.Sprintf(`set -e
tc qdisc replace dev eth0 root %s
[ -e /sys/class/net/ifb-in ] || ip link add ifb-in mtu "$(cat /sys/class/net/eth0/mtu)" type ifb
ip link set ifb-in up
tc qdisc replace dev ifb-in root %s
tc qdisc replace dev eth0 ingress
tc filter replace dev eth0 ingress matchall action mirred egress redirect dev ifb-in
`, netem, netem)
	}
	_, err := g.Run(ctx, "sh", "-c", script)
	return err
}

func (g *Guest) path(elem ...string) string {
	return filepath.Join(append([]string{g.dir}, elem...)...)
}

// Close shuts the guest down.
func (g *Guest) Close() error {
	// Its agent powers the machine off when the connection ends.
	_ = g.conn.Close()
	select {
	case <-g.gone:
	case <-time.After(10 * time.Second):
	}
	g.kill()
	return os.RemoveAll(g.dir)
}

func (g *Guest) kill() {
	g.stop()
	<-g.gone
	if g.conn != nil {
		_ = g.conn.Close()
	}
}

// Console returns what the guest's kernel and init wrote to the serial console.
func (g *Guest) Console() string {
	b, err := os.ReadFile(g.path("console"))
	if err != nil {
		return err.Error()
	}
	return strings.ReplaceAll(string(b), "\r", "")
}

// ConsoleTail returns the console's last lines with a heading, for a message.
func (g *Guest) ConsoleTail() string {
	return fmt.Sprintf("\n--- console of %s ---\n%s\n--- end of console ---", g.name, lastLines([]byte(g.Console()), 80))
}

// listen takes what the agent says until the connection ends.
func (g *Guest) listen(ready chan<- struct{}) {
	lines := bufio.NewScanner(g.conn)
	for lines.Scan() {
		var id, status int
		if lines.Text() == "ready" {
			close(ready)
		} else if n, _ := fmt.Sscanf(lines.Text(), "exit %d %d", &id, &status); n == 2 {
			g.mu.Lock()
			p := g.jobs[id]
			delete(g.jobs, id)
			g.mu.Unlock()
			if p != nil {
				p.status = status
				close(p.done)
			}
		}
	}
}

// tell sends the agent a line.
func (g *Guest) tell(format string, args ...any) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, err := fmt.Fprintf(g.conn, format+"\n", args...); err != nil {
		return fmt.Errorf("%s is gone: %w%s", g.name, err, g.ConsoleTail())
	}
	return nil
}

// A Process is a command that was started in a guest.
type Process struct {
	g      *Guest
	id     int
	argv   []string
	done   chan struct{}
	status int // valid when done is closed
}

// A Result is how a command in a guest ended.
type Result struct {
	Output string // standard output and standard error, interleaved
	Status int    // the exit status; 128 + N if signal N ended it
}

// An ExitError reports a command that failed in a guest.
type ExitError struct {
	Guest string
	Argv  []string
	Result
}

func (e *ExitError) Error() string {
	return fmt.Sprintf("%s: %s: exit status %d\n%s", e.Guest, strings.Join(e.Argv, " "), e.Status, e.Output)
}

// Start starts a command in the guest, found on the guest's PATH.
func (g *Guest) Start(argv ...string) (*Process, error) {
	g.mu.Lock()
	g.last++
	p := &Process{g: g, id: g.last, argv: argv, done: make(chan struct{})}
	g.jobs[p.id] = p
	g.mu.Unlock()
	if err := os.Mkdir(p.path(), 0o755); err != nil {
		return nil, err
	}
	var b strings.Builder
	b.WriteString("exec")
	for _, a := range argv {
		b.WriteString(" '" + strings.ReplaceAll(a, "'", `'\''`) + "'")
	}
	b.WriteByte('\n')
	if err := os.WriteFile(p.path("cmd"), []byte(b.String()), 0o644); err != nil {
		return nil, err
	}
	if err := g.tell("run %d", p.id); err != nil {
		return nil, err
	}
	return p, nil
}

// Run runs a command in the guest. The error is an *ExitError if its exit status is
// not zero. If ctx ends first, the command is killed.
func (g *Guest) Run(ctx context.Context, argv ...string) (Result, error) {
	p, err := g.Start(argv...)
	if err != nil {
		return Result{}, err
	}
	return p.Wait(ctx)
}

// GIDIndex returns the index in rxe0's table of GIDs of the RoCEv2 GID that an
// address of eth0 makes.
func (g *Guest) GIDIndex(ctx context.Context, addr netip.Addr) (int, error) {
	b := addr.As16() // an IPv4 address as an IPv6 one: RoCEv2's way
	var gid []string
	for i := 0; i < len(b); i += 2 {
		gid = append(gid, fmt.Sprintf("%02x%02x", b[i], b[i+1]))
	}
	const table = "/sys/class/infiniband/rxe0/ports/1/gids/"
	r, err := g.Run(ctx, "sh", "-c", "grep -lx "+strings.Join(gid, ":")+" "+table+"*")
	if err != nil {
		return 0, fmt.Errorf("rxe0 has no GID of %s: %w", addr, err)
	}
	return strconv.Atoi(strings.TrimPrefix(strings.TrimSpace(r.Output), table))
}

// Await runs a shell command in the guest until it succeeds.
func (g *Guest) Await(ctx context.Context, condition string) error {
	_, err := g.Run(ctx, "sh", "-c", "until "+condition+"; do sleep 0.1; done >/dev/null 2>&1")
	return err
}

// Wait waits for the process to end: see Run.
func (p *Process) Wait(ctx context.Context) (Result, error) {
	what := fmt.Sprintf("%s: %s", p.g.name, strings.Join(p.argv, " "))
	select {
	case <-p.done:
	case <-p.g.gone:
		return Result{}, fmt.Errorf("%s: the guest ended\n%s%s", what, p.Output(), p.g.ConsoleTail())
	case <-ctx.Done():
		err := fmt.Errorf("%s: %w\n%s%s", what, context.Cause(ctx), p.Output(), p.g.ConsoleTail())
		return Result{}, errors.Join(err, p.Signal("KILL"))
	}
	r := Result{Output: p.Output(), Status: p.status}
	if r.Status != 0 {
		return r, &ExitError{Guest: p.g.name, Argv: p.argv, Result: r}
	}
	return r, nil
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Signal sends the process and its children a signal, named as in "TERM". If it has
// ended, nothing happens.
func (p *Process) Signal(name string) error {
	select {
	case <-p.done:
		return nil
	case <-p.g.gone:
		return nil
	default:
		return p.g.tell("kill %d %s", p.id, name)
	}
}

// Output returns what the process has written so far. Most programs write to
// a file in blocks, so while one runs, this lags behind.
func (p *Process) Output() string {
	b, err := os.ReadFile(p.path("out"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err.Error()
	}
	return string(b)
}

func (p *Process) path(elem ...string) string {
	return p.g.path(append([]string{"runs", strconv.Itoa(p.id)}, elem...)...)
}
