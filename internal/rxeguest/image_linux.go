package rxeguest

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// What the image is made of. A change of these makes another image: see key.
var (
	// Packages whose programs the guest gets, all of them.
	guestPackages = []string{"busybox-static", "dash", "ethtool", "ibverbs-utils", "iproute2", "perftest", "rdmacm-utils"}
	// The other required packages; only parts of them are taken.
	otherPackages = []string{"ibverbs-providers", "linux-image-amd64", "qemu-system-x86"}
	// Kernel modules, loaded in this order, each after what it depends on.
	// rdma_rxe asks for crc32 by a name that only modprobe could resolve.
	guestModules = []string{
		"virtio_pci", "virtio_console", "virtio_net", "9pnet_virtio", "9p",
		"crc32_generic", "crc32c_generic", "rdma_rxe", "ib_uverbs", "rdma_ucm", "ib_umad",
		"sch_netem", "sch_ingress", "cls_matchall", "cls_bpf", "act_mirred", "ifb", "veth", "tun",
	}
	// Folders of the kernel package, below lib/modules/VERSION/kernel, that these
	// and what they depend on are in.
	moduleDirs = []string{
		"arch/x86/crypto", "crypto", "drivers/char", "drivers/infiniband", "drivers/net",
		"drivers/virtio", "fs/9p", "fs/configfs", "fs/fscache", "fs/netfs", "lib", "net",
	}
	// QEMU's modules and firmware, and where in the packages they are.
	qemuModules  = []string{"usr/lib/x86_64-linux-gnu/qemu/accel-tcg-x86_64.so"}
	qemuFirmware = []string{
		"usr/share/seabios/bios-256k.bin", "usr/share/qemu/linuxboot_dma.bin", "usr/share/qemu/kvmvapic.bin",
	}
	// Files that the guest needs besides programs and the libraries they name:
	// libibverbs' driver and what says that it exists.
	guestFiles = []string{
		"etc/libibverbs.d/rxe.driver", "usr/lib/x86_64-linux-gnu/libibverbs/librxe-rdmav34.so", libgcc,
	}
	// Programs that run on the host side.
	hostPrograms = []string{"usr/bin/qemu-system-x86_64", "bin/ip"}
)

// libgcc is opened by pthread_exit, when there is a thread to exit.
const libgcc = "lib/x86_64-linux-gnu/libgcc_s.so.1"

// recipe is raised when the way an image is made changes in another way than by
// the lists above.
const recipe = 2

// key names the image that these lists make.
func key() string {
	h := sha256.New()
	fmt.Fprintln(h, recipe, release, guestPackages, otherPackages, guestModules, guestFiles, qemuModules, qemuFirmware, hostPrograms)
	return fmt.Sprintf("%x", h.Sum(nil)[:6])
}

// An Image is what guests boot from: a folder in the cache, never changed after
// it is made. It may be used by several goroutines and processes at once.
type Image struct{ dir string }

// Dir returns the image's folder. Below it are vmlinuz, initramfs.cpio, host (QEMU
// and ip, with their libraries) and packages.txt, which lists what it was made of.
func (im *Image) Dir() string { return im.dir }

func (im *Image) path(elem ...string) string {
	return filepath.Join(append([]string{im.dir}, elem...)...)
}

// program returns the start of the command line that runs one of the image's
// host-side programs with the image's own libraries, whatever the system's are.
func (im *Image) program(name string) []string {
	return []string{
		im.path("host/lib/ld-linux-x86-64.so.2"), "--inhibit-cache",
		"--library-path", im.path("host/lib"), im.path("host/bin", name),
	}
}

// DefaultCacheDir returns the folder "rxe" in $SLUICE_CACHE, or in "sluice" in
// the user's cache folder when that is not set.
func DefaultCacheDir() (string, error) {
	if dir := os.Getenv("SLUICE_CACHE"); dir != "" {
		dir, err := filepath.Abs(dir)
		return filepath.Join(dir, "rxe"), err
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no folder for the guest's image (set SLUICE_CACHE): %w", err)
	}
	return filepath.Join(dir, "sluice", "rxe"), nil
}

// Prepare returns the image in cacheDir, DefaultCacheDir if that is empty. It makes
// the image if it is not there, which takes a network, some 130 MB of downloads and
// half a minute; afterwards the image is some 80 MB. If several processes call it
// at once, one makes the image and the others wait. It logs long steps to logf. The
// error is an *UnavailableError where this machine or its network can't provide an
// image.
func Prepare(ctx context.Context, cacheDir string, logf func(format string, args ...any)) (*Image, error) {
	if runtime.GOARCH != "amd64" {
		return nil, &UnavailableError{Reason: "the guest and its QEMU are for amd64, this is " + runtime.GOARCH}
	}
	if cacheDir == "" {
		var err error
		if cacheDir, err = DefaultCacheDir(); err != nil {
			return nil, err
		}
	}
	im := &Image{dir: filepath.Join(cacheDir, release+"-"+key())}
	if _, err := os.Stat(im.dir); err == nil {
		return im, nil
	}
	if err := os.MkdirAll(cacheDir, 0o755); err != nil {
		return nil, err
	}
	unlock, err := lock(ctx, filepath.Join(cacheDir, "lock"), logf)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if _, err := os.Stat(im.dir); err == nil {
		return im, nil
	}
	if err := im.make(ctx, cacheDir, logf); err != nil {
		return nil, fmt.Errorf("guest image: %w", err)
	}
	return im, nil
}

// lock holds a file's lock until unlock is called or the process dies.
func lock(ctx context.Context, name string, logf func(string, ...any)) (unlock func(), err error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for tries := 0; ; tries++ {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			_ = f.Close()
			return nil, &os.PathError{Op: "lock", Path: name, Err: err}
		}
		if tries == 0 {
			logf("waiting for another process that is making the guest image (it holds %s)", name)
		}
		select {
		case <-ctx.Done():
			_ = f.Close()
			return nil, fmt.Errorf("lock %s: %w", name, context.Cause(ctx))
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// make fills im.dir. It works in a folder next to it and renames that at the end,
// so that an existing im.dir is complete.
func (im *Image) make(ctx context.Context, cacheDir string, logf func(string, ...any)) error {
	// The lock is ours: what is left here was left by a process that died.
	old, err := filepath.Glob(filepath.Join(cacheDir, "build-*"))
	if err != nil {
		return err
	}
	for _, dir := range old {
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	work, err := os.MkdirTemp(cacheDir, "build-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()

	logf("downloading Debian %s packages (some 130 MB, once)", release)
	debs, err := download(ctx, filepath.Join(work, "apt"), append(slices.Clone(guestPackages), otherPackages...))
	if err != nil {
		return err
	}
	logf("making the guest image from %d packages", len(debs))
	treeDir, made := filepath.Join(work, "tree"), filepath.Join(work, "image")
	for _, dir := range []string{treeDir, made} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	root, err := os.OpenRoot(treeDir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	t := tree{root}
	var programs []string // of guestPackages
	var manifest strings.Builder
	for _, deb := range debs {
		base := filepath.Base(deb)
		fmt.Fprintln(&manifest, strings.ReplaceAll(strings.TrimSuffix(base, ".deb"), "%3a", ":"))
		name, _, _ := strings.Cut(base, "_")
		fromGuest := slices.Contains(guestPackages, name)
		keep := func(file string) bool {
			if fromGuest && isProgram(file) {
				programs = append(programs, file)
				return true
			}
			return wanted(file)
		}
		if err := t.unpack(ctx, deb, keep); err != nil {
			return err
		}
	}
	out := &Image{dir: made}
	if err := os.WriteFile(out.path("packages.txt"), []byte(manifest.String()), 0o644); err != nil {
		return err
	}
	kernel, err := t.one("boot/vmlinuz-*")
	if err != nil {
		return err
	}
	if err := t.copy(kernel, out.path("vmlinuz"), 0o644); err != nil {
		return err
	}
	if err := t.makeInitramfs(out.path("initramfs.cpio"), programs, strings.TrimPrefix(kernel, "boot/vmlinuz-")); err != nil {
		return err
	}
	if err := t.makeHost(out.path("host")); err != nil {
		return err
	}
	return os.Rename(made, im.dir)
}

// isProgram says whether a file is where programs are.
func isProgram(file string) bool {
	return slices.Contains([]string{"bin", "sbin", "usr/bin", "usr/sbin"}, path.Dir(file))
}

// wanted says whether a file of any package may become part of the image.
func wanted(file string) bool {
	if slices.Contains(hostPrograms, file) || slices.Contains(qemuModules, file) || slices.Contains(qemuFirmware, file) {
		return true
	}
	dir, base := path.Split(file)
	dir = strings.TrimSuffix(dir, "/")
	if module, ok := strings.CutPrefix(dir, "lib/modules/"); ok {
		_, module, _ = strings.Cut(module, "/kernel/")
		return slices.ContainsFunc(moduleDirs, func(d string) bool {
			return module == d || strings.HasPrefix(module, d+"/")
		})
	}
	if slices.Contains(libDirs, dir) {
		return strings.Contains(base, ".so")
	}
	return strings.HasPrefix(file, "boot/vmlinuz-") || slices.Contains(guestFiles, file)
}

// copy copies a file of the tree, through links.
func (t tree) copy(name, to string, perm fs.FileMode) error {
	data, err := t.root.ReadFile(name)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, perm)
}

// makeHost makes the folder of what runs on the host side: bin, lib and qemu.
func (t tree) makeHost(dir string) error {
	for _, d := range []string{"bin", "lib", "qemu"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return err
		}
	}
	for _, file := range hostPrograms {
		if err := t.copy(file, filepath.Join(dir, "bin", path.Base(file)), 0o755); err != nil {
			return err
		}
	}
	for _, file := range slices.Concat(qemuModules, qemuFirmware) {
		if err := t.copy(file, filepath.Join(dir, "qemu", path.Base(file)), 0o644); err != nil {
			return err
		}
	}
	libs, err := t.libraries(slices.Concat(hostPrograms, qemuModules))
	if err != nil {
		return err
	}
	libs[path.Base(libgcc)] = libgcc
	for name, file := range libs {
		if err := t.copy(file, filepath.Join(dir, "lib", name), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// makeInitramfs writes the guest's file system: programs, their libraries,
// libibverbs' drivers, and the modules with the order to load them in. The init
// script comes in an archive of its own at boot.
func (t tree) makeInitramfs(to string, programs []string, version string) error {
	files := make(map[string]string) // from name in the guest to name in the tree
	var elves []string
	for _, p := range programs {
		if ok, err := t.isELF(p); err != nil {
			return err
		} else if ok {
			files[p] = p
			elves = append(elves, p)
		}
	}
	for _, f := range guestFiles {
		files[f] = f
		if ok, err := t.isELF(f); err != nil {
			return err
		} else if ok {
			elves = append(elves, f)
		}
	}
	libs, err := t.libraries(elves)
	if err != nil {
		return err
	}
	for name, file := range libs {
		files[path.Join(libDirs[0], name)] = file
	}
	files["lib64/ld-linux-x86-64.so.2"] = libs["ld-linux-x86-64.so.2"]

	modules, err := t.modules(path.Join("lib/modules", version, "kernel"))
	if err != nil {
		return err
	}
	order, err := loadOrder(guestModules, func(name string) ([]string, error) {
		file, ok := modules[name]
		if !ok {
			return nil, fmt.Errorf("not in %s of the kernel's package", strings.Join(moduleDirs, ", "))
		}
		f, err := t.root.Open(file)
		if err != nil {
			return nil, err
		}
		defer func() { _ = f.Close() }()
		return moduleDepends(f)
	})
	if err != nil {
		return err
	}
	for _, m := range order {
		files["lib/modules/"+m+".ko"] = modules[m]
	}

	f, err := os.Create(to)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	w := bufio.NewWriter(f)
	if err := t.archive(w, files, strings.Join(order, "\n")+"\n"); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return f.Close()
}

// modules returns the kernel's modules by their names, in which - and _ are alike.
func (t tree) modules(dir string) (map[string]string, error) {
	modules := make(map[string]string)
	err := fs.WalkDir(t.root.FS(), dir, func(file string, _ fs.DirEntry, err error) error {
		if name, ok := strings.CutSuffix(path.Base(file), ".ko"); ok {
			modules[strings.ReplaceAll(name, "-", "_")] = file
		}
		return err
	})
	return modules, err
}

func (t tree) isELF(name string) (bool, error) {
	info, err := t.root.Lstat(name)
	if err != nil || !info.Mode().IsRegular() {
		return false, err
	}
	f, err := t.root.Open(name)
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }()
	magic := make([]byte, 4)
	if _, err := io.ReadFull(f, magic); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return false, err
	}
	return bytes.Equal(magic, []byte("\x7fELF")), nil
}

// archive writes the initramfs: the files, the folders these are in, and a few
// that programs expect. loadOrder is the text of /etc/modules.
func (t tree) archive(w io.Writer, files map[string]string, loadOrder string) error {
	text := map[string]string{
		"etc/group":         "root:x:0:\n",
		"etc/hosts":         "127.0.0.1 localhost\n::1 localhost\n",
		"etc/modules":       loadOrder,
		"etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\nservices: files\n",
		"etc/passwd":        "root:x:0:0:root:/root:/bin/sh\n",
	}
	var names []string
	for _, d := range []string{"applets", "dev", "host", "job", "proc", "root", "run", "runs", "sys", "tmp"} {
		names = append(names, d+"/")
	}
	add := func(name string) {
		names = append(names, name)
		for d := path.Dir(name); d != "."; d = path.Dir(d) {
			names = append(names, d+"/")
		}
	}
	for name := range files {
		add(name)
	}
	for name := range text {
		add(name)
	}
	slices.Sort(names) // a folder before what is in it
	c := &cpioWriter{w: w}
	for _, name := range slices.Compact(names) {
		if dir, ok := strings.CutSuffix(name, "/"); ok {
			c.dir(dir)
		} else if data, ok := text[name]; ok {
			c.file(name, 0o644, []byte(data))
		} else {
			data, err := t.root.ReadFile(files[name])
			if err != nil {
				return err
			}
			c.file(name, 0o755, data)
		}
	}
	return c.close()
}
