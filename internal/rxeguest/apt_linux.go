package rxeguest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	release       = "bookworm" // Debian 12: Linux 6.1, QEMU 7.2, perftest 4.5, rdma-core 44
	defaultMirror = "http://deb.debian.org/debian"
	keyring       = "/usr/share/keyrings/debian-archive-keyring.gpg"
)

// download has apt-get fetch the packages and all that they depend on into dir,
// and returns the .deb files. apt-get checks signatures against Debian's keyring.
// It works on lists and a cache of its own below dir, with no package taken as
// installed, so the system's own packages neither matter nor change. Of the
// system's settings only those of proxies are taken over.
func download(ctx context.Context, dir string, packages []string) ([]string, error) {
	for _, tool := range []string{"apt-get", "dpkg-deb"} {
		if _, err := exec.LookPath(tool); err != nil {
			return nil, &UnavailableError{Reason: "the guest is made from Debian packages, which takes apt-get and dpkg-deb", Err: err}
		}
	}
	if _, err := os.Stat(keyring); err != nil {
		return nil, &UnavailableError{Reason: "Debian's keys are missing: install the package debian-archive-keyring", Err: err}
	}
	for _, d := range []string{"state/lists/partial", "cache/archives/partial", "log"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return nil, err
		}
	}
	conf := strings.NewReplacer("DIR", dir).Replace(`
Dir::State "DIR/state";
Dir::State::status "DIR/status";
Dir::Cache "DIR/cache";
Dir::Log "DIR/log";
Dir::Etc::main "/dev/null";
Dir::Etc::parts "/dev/null";
Dir::Etc::sourcelist "DIR/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::Etc::trusted "/dev/null";
Dir::Etc::trustedparts "/dev/null";
APT::Architecture "amd64";
APT::Architectures { "amd64"; };
APT::Install-Recommends "false";
APT::Sandbox::User "root";
APT::Update::Error-Mode "any";
Acquire::Languages "none";
Acquire::Retries "3";
Acquire::http::Timeout "30";
Acquire::https::Timeout "30";
Debug::NoLocking "true";
`) + proxies(ctx)
	mirror := cmp.Or(os.Getenv("SLUICE_DEBIAN_MIRROR"), defaultMirror)
	files := map[string]string{
		"apt.conf":     conf,
		"status":       "",
		"sources.list": fmt.Sprintf("deb [arch=amd64 signed-by=%s] %s %s main\n", keyring, mirror, release),
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	aptGet := func(args ...string) error {
		cmd := exec.CommandContext(ctx, "apt-get", append([]string{"-q"}, args...)...)
		cmd.Env = append(os.Environ(), "APT_CONFIG="+filepath.Join(dir, "apt.conf"), "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive")
		if out, err := cmd.CombinedOutput(); err != nil {
			if ctx.Err() != nil {
				return fmt.Errorf("apt-get %s: %w", args[0], context.Cause(ctx))
			}
			return &UnavailableError{
				Reason: fmt.Sprintf("Debian packages could not be fetched from %s (offline? SLUICE_DEBIAN_MIRROR names another mirror): apt-get %s", mirror, args[0]),
				Err:    fmt.Errorf("%w\n%s", err, lastLines(out, 8)),
			}
		}
		return nil
	}
	if err := aptGet("update"); err != nil {
		return nil, err
	}
	if err := aptGet(append([]string{"install", "--download-only", "--yes"}, packages...)...); err != nil {
		return nil, err
	}
	debs, err := filepath.Glob(filepath.Join(dir, "cache/archives/*.deb"))
	if err == nil && len(debs) == 0 {
		err = errors.New("apt-get install --download-only left no packages")
	}
	return debs, err
}

// proxies returns the system's apt settings for proxies.
func proxies(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "apt-config", "dump", "--no-empty", "Acquire").Output()
	if err != nil {
		return "" // no apt-config, nothing set
	}
	var b strings.Builder
	for line := range strings.Lines(string(out)) {
		name, _, _ := strings.Cut(line, " ")
		if low := strings.ToLower(name); strings.HasPrefix(low, "acquire::http") && strings.Contains(low, "proxy") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// lastLines returns the last n lines of text.
func lastLines(text []byte, n int) string {
	lines := bytes.Split(bytes.TrimRight(text, "\n"), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-n):], []byte("\n")))
}
