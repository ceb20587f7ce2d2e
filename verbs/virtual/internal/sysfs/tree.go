package sysfs

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sluice-rdma/sluice/units"
)

// Device is an mlx5 device of one port, on Ethernet.
type Device struct {
	Name, Node string // "mlx5_0", "uverbs0"
	PCI        string // where it seems to be: "0000:c1:00.0"
	PartID     uint32 // PCI device
	Firmware   string
	BoardID    string
	NodeGUID   uint64
	Rate       units.Rate
	Active     bool
	Interface  string // the network interface that its GIDs are of, or ""
	// GIDs are those of RoCE v2, in order; the table has GIDTable entries, at least as many.
	GIDs     []netip.Addr
	GIDTable int
}

// bus is the domain and bus of a PCI address such as "0000:c1:00.0".
func bus(pci string) string { return pci[:strings.LastIndexByte(pci, ':')] }

// busDir and dir are the directories of the device's bus and of the device.
func (d *Device) busDir() string { return "/sys/devices/pci" + bus(d.PCI) }
func (d *Device) dir() string    { return d.busDir() + "/" + d.PCI }

// characterDevice is the number of /dev/null, which stands in for the nodes: a program
// compares what it has opened with it.
const characterDevice = "1:3"

const rdmaCM = "/sys/devices/virtual/misc/rdma_cm"

// Paths returns the paths that lead to the tree: what lies below them is there, or
// nowhere.
func Paths(devices []Device) []string {
	paths := []string{
		"/dev/infiniband",
		"/sys/class/infiniband", "/sys/class/infiniband_verbs", "/sys/class/infiniband_mad", "/sys/class/infiniband_cm",
		"/sys/class/misc/rdma_cm", rdmaCM,
	}
	for i := range devices {
		paths = append(paths, devices[i].busDir(), "/sys/bus/pci/devices/"+devices[i].PCI)
	}
	return paths
}

// Write writes the tree of devices, and of rdma_cm if cm is set, into dir, which exists:
// what programs see as /sys/class is dir/sys/class. Links in it are relative. dir/paths
// has Paths, a line each, for the library that leads programs there.
func Write(dir string, devices []Device, cm bool) error {
	t := tree{dir: dir}
	t.mkdir("/dev/infiniband")
	t.mkdir("/sys/class/infiniband")
	t.file("/sys/class/infiniband_verbs/abi_version", "6")
	t.mkdir("/sys/class/misc")
	if cm {
		t.node("rdma_cm")
		t.file(rdmaCM+"/abi_version", "4")
		t.file(rdmaCM+"/dev", characterDevice)
		t.file(rdmaCM+"/uevent", "MAJOR=1\nMINOR=3\nDEVNAME=infiniband/rdma_cm")
		t.link("/sys/class/misc/rdma_cm", rdmaCM)
		t.link(rdmaCM+"/subsystem", "/sys/class/misc")
	}
	for i := range devices {
		t.device(&devices[i])
	}
	t.file("/paths", strings.Join(Paths(devices), "\n"))
	return t.err
}

func (t *tree) device(d *Device) {
	t.pci(d)
	t.verbs(d)
	t.infiniband(d)
}

// pci writes what the PCI bus has of a device.
func (t *tree) pci(d *Device) {
	p := d.dir()
	modalias := fmt.Sprintf("pci:v%08Xd%08Xsv%08Xsd%08Xbc02sc00i00", vendor, d.PartID, vendor, 0)
	t.file(p+"/vendor", fmt.Sprintf("%#04x", vendor))
	t.file(p+"/device", fmt.Sprintf("%#04x", d.PartID))
	t.file(p+"/subsystem_vendor", fmt.Sprintf("%#04x", vendor))
	t.file(p+"/subsystem_device", "0x0000")
	t.file(p+"/revision", "0x00")
	t.file(p+"/class", "0x020000")
	t.file(p+"/modalias", modalias)
	t.file(p+"/uevent", fmt.Sprintf("DRIVER=mlx5_core\nPCI_CLASS=20000\nPCI_ID=%04X:%04X\nPCI_SUBSYS_ID=%04X:0000\nPCI_SLOT_NAME=%s\nMODALIAS=%s",
		vendor, d.PartID, vendor, d.PCI, modalias))
	t.file(p+"/numa_node", "-1")
	t.cpus(p)
	t.link(p+"/subsystem", "/sys/bus/pci")
	t.mkdir("/sys/bus/pci/drivers/mlx5_core")
	t.link(p+"/driver", "/sys/bus/pci/drivers/mlx5_core")
	t.link("/sys/bus/pci/devices/"+d.PCI, p)
	if d.Interface != "" { // the machine's own, outside the tree
		t.mkdir(p + "/net")
		t.symlink(p+"/net/"+d.Interface, "/sys/class/net/"+d.Interface)
	}
}

const vendor = 0x15b3 // Mellanox

// cpus writes that all of the machine's processors are near.
func (t *tree) cpus(p string) {
	list := "0"
	if b, err := os.ReadFile("/sys/devices/system/cpu/online"); err == nil {
		list = strings.TrimSpace(string(b))
	}
	t.file(p+"/local_cpulist", list)
	t.file(p+"/local_cpus", mask(list))
}

// mask turns a list of numbers such as "0-3,8" into the kernel's bit mask: words of 32
// bits in hexadecimal, the highest first. What is no list gives 0.
func mask(list string) string {
	words := []uint32{0}
	for part := range strings.SplitSeq(list, ",") {
		var first, last int
		switch n, _ := fmt.Sscanf(part, "%d-%d", &first, &last); n {
		case 0:
			continue
		case 1:
			last = first
		}
		for cpu := first; cpu <= last && cpu < 1<<16; cpu++ {
			for cpu/32 >= len(words) {
				words = append(words, 0)
			}
			words[cpu/32] |= 1 << (cpu % 32)
		}
	}
	var text []string
	for i := len(words) - 1; i >= 0; i-- {
		text = append(text, fmt.Sprintf("%08x", words[i]))
	}
	return strings.Join(text, ",")
}

// verbs writes the uverbs device.
func (t *tree) verbs(d *Device) {
	p := d.dir() + "/infiniband_verbs/" + d.Node
	t.node(d.Node)
	t.file(p+"/abi_version", "1")
	t.file(p+"/dev", characterDevice)
	t.file(p+"/ibdev", d.Name)
	t.file(p+"/uevent", "MAJOR=1\nMINOR=3\nDEVNAME=infiniband/"+d.Node)
	t.symlink(p+"/device", "../../../"+d.PCI)
	t.link(p+"/subsystem", "/sys/class/infiniband_verbs")
	t.link("/sys/class/infiniband_verbs/"+d.Node, p)
}

// infiniband writes the RDMA device and its port.
func (t *tree) infiniband(d *Device) {
	p := d.dir() + "/infiniband/" + d.Name
	guid := colons(fmt.Sprintf("%016x", d.NodeGUID))
	t.file(p+"/node_type", "1: CA")
	t.file(p+"/node_guid", guid)
	t.file(p+"/sys_image_guid", guid)
	t.file(p+"/node_desc", d.Name)
	t.file(p+"/fw_ver", d.Firmware)
	t.file(p+"/hca_type", fmt.Sprintf("MT%d", d.PartID))
	t.file(p+"/hw_rev", "0")
	t.file(p+"/board_id", d.BoardID)
	t.symlink(p+"/device", "../../../"+d.PCI)
	t.link(p+"/subsystem", "/sys/class/infiniband")
	t.link("/sys/class/infiniband/"+d.Name, p)

	p += "/ports/1"
	t.file(p+"/link_layer", "Ethernet")
	t.file(p+"/cap_mask", "0x04010000") // CM_SUP, IP_BASED_GIDS
	t.file(p+"/lid", "0x0")
	t.file(p+"/lid_mask_count", "0")
	t.file(p+"/sm_lid", "0x0")
	t.file(p+"/sm_sl", "0")
	t.file(p+"/pkeys/0", "0xffff")
	t.port(d)
}

// WritePort writes how a device's port is now into the tree at dir. Programs may read it
// meanwhile.
func WritePort(dir string, d *Device) error {
	t := tree{dir: dir}
	t.port(d)
	return t.err
}

// port writes what changes while the device is there.
func (t *tree) port(d *Device) {
	p := d.dir() + "/infiniband/" + d.Name + "/ports/1"
	state, physical := "1: DOWN", "3: Disabled"
	if d.Active {
		state, physical = "4: ACTIVE", "5: LinkUp"
	}
	t.replace(p, "state", state)
	t.replace(p, "phys_state", physical)
	t.replace(p, "rate", rate(d.Rate))
	t.mkdir(p + "/gid_attrs/types")
	t.mkdir(p + "/gid_attrs/ndevs")
	for i := range d.GIDTable {
		var gid [16]byte
		name := strconv.Itoa(i)
		if i < len(d.GIDs) && !d.GIDs[i].IsUnspecified() {
			gid = d.GIDs[i].As16()
			t.replace(p+"/gid_attrs/types", name, "RoCE v2")
			if d.Interface != "" {
				t.replace(p+"/gid_attrs/ndevs", name, d.Interface)
			}
		} else { // the kernel refuses to read those of an empty place
			t.remove(p + "/gid_attrs/types/" + name)
			t.remove(p + "/gid_attrs/ndevs/" + name)
		}
		t.replace(p+"/gids", name, colons(fmt.Sprintf("%x", gid)))
	}
}

// colons puts a colon after every fourth digit.
func colons(hex string) string {
	var b strings.Builder
	for i := range len(hex) {
		if i > 0 && i%4 == 0 {
			b.WriteByte(':')
		}
		b.WriteByte(hex[i])
	}
	return b.String()
}

// rate is the text of the slowest link that is as fast: what the driver makes of an
// Ethernet link's speed, as a width and a speed of InfiniBand.
func rate(r units.Rate) string {
	for _, link := range links {
		if r <= link.rate {
			return link.text
		}
	}
	return links[len(links)-1].text
}

var links = []struct {
	rate units.Rate
	text string
}{
	{10 * units.Gbps, "10 Gb/sec (1X QDR)"},
	{25 * units.Gbps, "25 Gb/sec (1X EDR)"},
	{40 * units.Gbps, "40 Gb/sec (4X QDR)"},
	{50 * units.Gbps, "50 Gb/sec (2X EDR)"},
	{100 * units.Gbps, "100 Gb/sec (4X EDR)"},
	{200 * units.Gbps, "200 Gb/sec (4X HDR)"},
	{400 * units.Gbps, "400 Gb/sec (4X NDR)"},
}

// tree writes files below dir, under the names that programs see, until one fails.
type tree struct {
	dir string
	err error
}

func (t *tree) file(name, text string) {
	t.mkdir(filepath.Dir(name))
	if t.err == nil {
		t.err = os.WriteFile(t.dir+name, []byte(text+"\n"), 0o444)
	}
}

// replace has a file be either what it was or what it is to be.
func (t *tree) replace(dir, name, text string) {
	if t.err == nil {
		t.err = replace(t.dir+dir, name, text)
	}
}

func (t *tree) remove(name string) {
	if t.err == nil {
		if t.err = os.Remove(t.dir + name); errors.Is(t.err, fs.ErrNotExist) {
			t.err = nil
		}
	}
}

func (t *tree) mkdir(name string) {
	if t.err == nil {
		t.err = os.MkdirAll(t.dir+name, 0o755)
	}
}

// link makes a relative link to another name of the tree.
func (t *tree) link(name, to string) {
	relative, err := filepath.Rel(filepath.Dir(name), to)
	if err != nil && t.err == nil {
		t.err = err
	}
	t.symlink(name, relative)
}

func (t *tree) symlink(name, to string) {
	t.mkdir(filepath.Dir(name))
	if t.err != nil {
		return
	}
	t.err = os.Symlink(to, t.dir+name)
}

// node makes a device node: a link to the character device that stands in for it.
func (t *tree) node(name string) { t.symlink("/dev/infiniband/"+name, "/dev/null") }

// FreePCI returns n PCI addresses on buses that the machine does not have.
func FreePCI(n int) []string {
	var free []string
	for b := 0xc1; b >= 0x01 && len(free) < n; b-- {
		address := fmt.Sprintf("0000:%02x:00.0", b)
		if _, err := os.Stat("/sys/devices/pci" + bus(address)); errors.Is(err, fs.ErrNotExist) {
			if _, err := os.Stat("/sys/bus/pci/devices/" + address); errors.Is(err, fs.ErrNotExist) {
				free = append(free, address)
			}
		}
	}
	return free
}
