# Sluice needs Go and make, nothing else. `make` or `make help` lists the targets.

GO ?= go
BIN := bin

# The linter is built once into bin/ from the version pinned here; CI and every
# developer run the same one.
GOLANGCI_VERSION := v2.15.0
GOLANGCI := $(BIN)/golangci-lint-$(GOLANGCI_VERSION)

# Runs tests, and says at the end which were skipped and why. Built the same way.
GOTESTSUM_VERSION := v1.13.0
GOTESTSUM := $(BIN)/gotestsum-$(GOTESTSUM_VERSION)

COUNT ?= 1
BENCHTIME ?= 1s

# How long `make fuzz` is at each target.
FUZZTIME ?= 5m

# For example make test GOTESTFLAGS=-count=1.
GOTESTFLAGS ?=

# What `make run` runs: built-in scenarios, and where the report goes.
SCENARIOS ?= timely-table1 websearch
REPORT ?= report.html

# A C compiler is not required. With one, and libibverbs and librdmacm, devices of
# libibverbs are built in (verbs/ibverbs); `make IBVERBS=no` leaves them out. Nothing else
# decides about cgo. Both are asked anew for each recipe, since `deps` installs what is missing.
ifeq ($(origin CGO_ENABLED),undefined)
export CGO_ENABLED = $(if $(filter yes,$(IBVERBS)),1,0)
else
NO_CGO := $(filter 0,$(CGO_ENABLED))
endif
ifeq ($(origin IBVERBS),undefined)
IBVERBS = $(if $(NO_CGO),no,$(shell command -v $(or $(CC),cc) >/dev/null 2>&1 && pkg-config --exists libibverbs librdmacm 2>/dev/null && echo yes || echo no))
endif
CC_PATH = $(shell command -v $(or $(CC),cc) 2>/dev/null)
TAGS = $(if $(filter yes,$(IBVERBS)),-tags ibverbs)
CHOSEN = libibverbs: $(if $(TAGS),built in (make IBVERBS=no leaves it out),left out (IBVERBS=no, CGO_ENABLED=0, or no C compiler, pkg-config, libibverbs-dev or librdmacm-dev))

# What `make test-hw` tests: a device of libibverbs on this machine, its peer if that is
# another, and where the report goes.
DEV ?=
PEER ?=
GID ?= -1
HWREPORT ?= test-hw.txt

.DEFAULT_GOAL := help
.PHONY: help run build command deps deps-all test test-all test-long test-long-others test-guests bare test-rxe test-hw test-k8s fuzz race race-build libsluice install-libsluice libsluice-core install-libsluice-core libsluice-virtual nccl-plugin bench-c bench-pacing bench bench-sim bench-roce bench-wirestamp validate-nic compare-nic mutants check look fmt-check vet portable lint tidy-check generate-check layers api-check p4c deb image clean need-go

help: ## list the targets
	@echo 'Sluice: make TARGET [VARIABLE=value]'
	@echo
	@sed -n 's/^\([a-z][a-z0-9-]*\):[^#]*## \(.*\)/\1|\2/p' $(firstword $(MAKEFILE_LIST)) | \
	while IFS='|' read -r name text; do printf '  %-16s %s\n' "$$name" "$$text"; done

run: command ## run the main job on the built-in model: tables on screen, plots in report.html
	$(BIN)/sluice run $(SCENARIOS) --report $(REPORT)

build: command $(if $(CC_PATH),libsluice-virtual) $(if $(filter yes,$(IBVERBS)),libsluice) ## build bin/sluice, and the C libraries where a C compiler and libibverbs are

# STAMP is what the linker writes into internal/version. Go itself leaves the commit out in
# worktrees of git, and with GOFLAGS=-buildvcs=false. Builds of packages set both.
STAMP ?= $(call stamp,$(shell deploy/commit.sh))
GOBUILDFLAGS ?=
at := github.com/sluice-rdma/sluice/internal/version
# $(call stamp,COMMIT TIME MODIFIED)
stamp = $(if $1,-X $(at).commit=$(word 1,$1) -X $(at).time=$(word 2,$1) -X $(at).modified=$(word 3,$1))

command: need-go
	@mkdir -p $(BIN)
	@echo '$(CHOSEN)'
	$(GO) build $(GOBUILDFLAGS) $(TAGS) -ldflags "$(STAMP)" -o $(BIN)/sluice ./cmd/sluice

# The C library (docs/c-api.md) and those to preload (docs/preload.md, docs/virtual-nic.md).
# Where they go, and where `make install-libsluice` puts them.
LIB ?= $(BIN)/lib
PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
DESTDIR ?=
LIBSLUICE_VERSION := 0.1.0
# The data path is many short functions, of which gcc by itself takes too few into their callers.
INLINING := -finline-functions -finline-limit=400
LIBSLUICE_CC := $(or $(CC),cc) -std=gnu11 -O2 $(INLINING) -Wall -Wextra
# $(call pc,PREFIX,LIBDIR,INCLUDEDIR) is sluice.pc.
pc = sed -e 's|@PREFIX@|$1|' -e 's|@LIBDIR@|$2|' -e 's|@INCLUDEDIR@|$3|' -e 's|@VERSION@|$(LIBSLUICE_VERSION)|' libsluice/sluice.pc.in

# Optimised as a whole, so that the compiler sees the core where it is called. The options of
# meaning come last (docs/c-core.md).
CORE_SRC := libsluice/internal/ccore/src
LIBSLUICE_SRC := $(wildcard libsluice/src/*.c) $(CORE_SRC)/sluice_core.c
libsluice: ## build libsluice.so and libsluice-preload.so, for C programs, into bin/lib; needs a C compiler and libibverbs
	@[ "$(IBVERBS)" = yes ] || { echo '$(CHOSEN)'; exit 1; }
	@mkdir -p $(LIB)
	$(LIBSLUICE_CC) $(CPPFLAGS) $(CFLAGS) -fvisibility=hidden -fPIC -flto=auto -frandom-seed=libsluice -Ilibsluice -Ilibsluice/include -fno-fast-math -fno-math-errno -fwrapv -ffp-contract=off -shared $(LDFLAGS) -Wl,-soname,libsluice.so.0 -Wl,--version-script=libsluice/libsluice.map -o $(LIB)/libsluice.so.0 $(LIBSLUICE_SRC) -libverbs -ldl -lpthread
	@ln -sf libsluice.so.0 $(LIB)/libsluice.so
	$(LIBSLUICE_CC) $(CPPFLAGS) $(CFLAGS) -fvisibility=hidden -fPIC -shared $(LDFLAGS) -o $(LIB)/libsluice-preload.so libsluice/preload/preload.c -Wl,--version-script=libsluice/preload/preload.map -ldl -lpthread
	@$(call pc,$(CURDIR),$(abspath $(LIB)),$(CURDIR)/libsluice/include) >$(LIB)/sluice.pc

# Its options come last: it defines what _FORTIFY_SOURCE and large files would rename.
libsluice-virtual: ## build libsluice-virtual.so, which `sluice virtual` preloads, into bin/lib; needs a C compiler alone
	@mkdir -p $(LIB)
	$(LIBSLUICE_CC) $(CPPFLAGS) $(CFLAGS) -U_FORTIFY_SOURCE -U_FILE_OFFSET_BITS -fvisibility=hidden -fPIC -shared $(LDFLAGS) -o $(LIB)/libsluice-virtual.so verbs/virtual/preload/*.c -Wl,--version-script=verbs/virtual/preload/virtual.map -ldl -lpthread

# docs/nccl.md.
nccl-plugin: ## build libnccl-net-sluice.so, a network plugin for NCCL, into bin/lib; needs a C compiler and libibverbs-dev
	@mkdir -p $(LIB)
	$(LIBSLUICE_CC) $(CPPFLAGS) $(CFLAGS) -fvisibility=hidden -fPIC -shared $(LDFLAGS) -o $(LIB)/libnccl-net-sluice.so libsluice/nccl/src/*.c -libverbs -lpthread

# The engines and the limiter in C without Go's runtime (docs/c-core.md). The options of
# meaning come last.
CORE_CC := $(or $(CC),cc) -std=c11 -O2 $(INLINING) -Wall -Wextra $(CPPFLAGS) $(CFLAGS) -fno-fast-math -fno-math-errno -fwrapv -ffp-contract=off -fPIC

libsluice-core: ## build libsluice-core.so and .a, engines, limiter and segmenter without a Go runtime, into bin/lib; needs a C compiler alone
	@mkdir -p $(LIB)
	$(CORE_CC) -c -o $(LIB)/sluice_core.o $(CORE_SRC)/sluice_core.c
	rm -f $(LIB)/libsluice-core.a
	$(or $(AR),ar) rcs $(LIB)/libsluice-core.a $(LIB)/sluice_core.o
	$(CORE_CC) -shared $(LDFLAGS) -Wl,-soname,libsluice-core.so.0 -o $(LIB)/libsluice-core.so.0 $(LIB)/sluice_core.o
	@rm -f $(LIB)/sluice_core.o
	@ln -sf libsluice-core.so.0 $(LIB)/libsluice-core.so

install-libsluice-core: libsluice-core ## install it, with its headers, under PREFIX=/usr/local (DESTDIR= for packages)
	@install -d $(DESTDIR)$(LIBDIR) $(DESTDIR)$(PREFIX)/include
	@install -m 755 $(LIB)/libsluice-core.so.0 $(DESTDIR)$(LIBDIR)
	@install -m 644 $(LIB)/libsluice-core.a $(DESTDIR)$(LIBDIR)
	@ln -sf libsluice-core.so.0 $(DESTDIR)$(LIBDIR)/libsluice-core.so
	@install -m 644 $(CORE_SRC)/sluice_core.h $(CORE_SRC)/sluice_go.h $(DESTDIR)$(PREFIX)/include

install-libsluice: libsluice libsluice-virtual ## install the C library under PREFIX=/usr/local (DESTDIR= for packages)
	@install -d $(DESTDIR)$(LIBDIR)/pkgconfig $(DESTDIR)$(PREFIX)/include $(DESTDIR)$(PREFIX)/share/man/man3 $(DESTDIR)$(PREFIX)/share/man/man7
	@install -m 755 $(LIB)/libsluice.so.0 $(LIB)/libsluice-preload.so $(LIB)/libsluice-virtual.so $(DESTDIR)$(LIBDIR)
	@ln -sf libsluice.so.0 $(DESTDIR)$(LIBDIR)/libsluice.so
	@install -m 644 libsluice/include/sluice.h $(DESTDIR)$(PREFIX)/include
	@install -m 644 libsluice/man/sluice.3 $(DESTDIR)$(PREFIX)/share/man/man3
	@install -m 644 libsluice/man/libsluice-preload.7 $(DESTDIR)$(PREFIX)/share/man/man7
	@$(call pc,$(PREFIX),$(LIBDIR),$(PREFIX)/include) >$(DESTDIR)$(LIBDIR)/pkgconfig/sluice.pc
	@[ -n "$(DESTDIR)" ] || libsluice/loader.sh $(LIBDIR)

# What emulates a guest runs by itself, or beside what takes no processor from it (.ci/steps):
# beside other tests its processor stands still for longer than protocols wait. It runs each
# time: that the command which these tests build has changed, Go's test cache does not see.
GUESTS := ./internal/rxeguest ./internal/rxetest
OTHERS = $$($(GO) list ./... | grep -v -e /internal/rxeguest$$ -e /internal/rxetest$$)
# On a slow machine some packages take more than Go's ten minutes.
test-others = $(GOTESTSUM) --format standard-quiet -- $(TAGS) -timeout 30m $(GOTESTFLAGS)
test-guests = $(GO) test $(GOTESTFLAGS) -v -count=1 -timeout 40m -p 1

test: need-go deps $(GOTESTSUM) ## run the tests but for those of minutes: all packages, and soft-RoCE in one guest
	@echo '$(CHOSEN)'
	@$(test-others) -short $(OTHERS)
	@$(test-guests) -short $(GUESTS)

test-all: need-go deps-all $(GOTESTSUM) ## run all tests: those of minutes, too, and everything against soft-RoCE
	@echo '$(CHOSEN)'
	@$(test-others) $(OTHERS)
	@$(test-guests) $(GUESTS)

# Backwards, as packages of verbs and libsluice take minutes and would else be left alone at the end.
test-long: test-long-others ## run what make test leaves out of test-all, and nothing again that it runs whole
	@$(test-guests) $(GUESTS)

test-long-others: need-go deps-all $(GOTESTSUM)
	@echo '$(CHOSEN)'
	@list=$$(mktemp) && trap 'rm -f "$$list"' EXIT && $(GO) run ./tools/longtests >"$$list" && \
	$(test-others) -exec "'$(CURDIR)/tools/longtests/only.sh' '$(CURDIR)' $$list" $$(sed 's/ .*//' "$$list" | grep -v -x $(addprefix -e ,$(GUESTS)) | sort -r)

test-guests: need-go
	@$(test-guests) $(GUESTS)

test-k8s: need-go ## build a kube-apiserver, minutes, and have it judge the job files of sluice sweep (docs/sweep.md)
	@[ '$(DEPS)' = no ] || tools/deps/install.sh k8s
	@$(GO) test -count=1 -timeout 30m -v -run '^TestSweepKubernetes$$' ./cli -kubernetes

bare: need-go ## run both commands of the README in a bare Debian root, as its first (root, on Debian)
	@tools/bare/root.sh tools/bare/newcomer.sh

# Debian packages that tests want, where root; DEPS=no leaves them out.
DEPS ?= yes
deps deps-all:
	@[ '$(DEPS)' = no ] || tools/deps/install.sh $(patsubst deps-%,%,$(filter deps-all,$@))

test-rxe: need-go ## run the tests against the kernel's soft-RoCE, in a guest (docs/soft-roce-in-ci.md)
	@$(GO) test -count=1 -timeout 40m -v ./internal/rxetest

# As many packages at once as there are processors, each with one worker.
fuzz: need-go ## run each fuzz target for FUZZTIME=5m; what one finds lies in its package's testdata/fuzz
	@grep -rl --include='*_test.go' '^func Fuzz' . | sed 's|/[^/]*$$||' | sort -u | \
	GO='$(GO)' FUZZTIME='$(FUZZTIME)' UNGUIDED='$(UNGUIDED)' xargs -n 1 -P "$$(getconf _NPROCESSORS_ONLN)" tools/fuzz/package.sh

test-hw: need-go ## run the provider tests on your own NIC: make test-hw DEV=mlx5_0 [PEER=mlx5_1] (docs/real-nic.md)
	@[ -n "$(DEV)" ] || { echo 'name a device of ibv_devices: make test-hw DEV=mlx5_0'; exit 2; }
	@[ "$(IBVERBS)" = yes ] || { echo '$(CHOSEN)'; exit 1; }
	@{ date -u; uname -sr; $(GO) version; echo "DEV=$(DEV) PEER=$(PEER) GID=$(GID)"; \
	$(GO) run $(TAGS) ./cmd/sluice devices -v -d 'ibv:$(DEV)'; \
	$(GO) test $(TAGS) -count=1 -v -run '^TestDevice$$' ./verbs/verbstest -device 'ibv:$(DEV)' $(if $(PEER),-peer 'ibv:$(PEER)') -gid $(GID); \
	echo "exit status $$?"; } 2>&1 | tee $(HWREPORT)
	@echo 'the report is in $(HWREPORT)'
	@tail -n 1 $(HWREPORT) | grep -qx 'exit status 0'

# Packages that start goroutines, in tests or outside, and all below verbs, whose
# providers do; not the ones that emulate a guest, nor the one that waits for a browser. Those of
# minutes come first, as one of them would else be left alone at the end.
RACE = ./cli ./bench ./libsluice/nccl/internal/harness ./verbs/... $$(grep -rlE --include='*.go' '^[[:space:]]*go (func[( ]|[A-Za-z_.]+\()|\.Go\(func' . | sed 's|/[^/]*$$||' | sort -u | grep -v -e /internal/rxeguest$$ -e /internal/rxetest$$ -e /internal/report$$)

race: need-go ## run the packages that have goroutines under the race detector (needs a C compiler)
	CGO_ENABLED=1 $(GO) test $(TAGS) -race -short -timeout 30m $(GOTESTFLAGS) $(RACE)

race-build: need-go ## compile what make race needs, and run nothing
	CGO_ENABLED=1 $(GO) list $(TAGS) -race -test -deps -export -f '' $(RACE) >/dev/null

bench: need-go ## measure the hot paths; COUNT=10 gives what benchstat wants
	@$(GO) test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) -count $(COUNT) \
		$$($(GO) run ./tools/layers hot)

# bench-sim's own flags: make bench-sim SIMFLAGS='-workloads perm1024 -flows FILE.cm'.
SIMFLAGS ?=

bench-sim: need-go ## measure the simulator on the standard speed workloads (docs/performance.md)
	@mkdir -p $(BIN)
	@$(GO) build -o $(BIN)/benchsim ./bench/internal/benchsim
	@$(BIN)/benchsim $(SIMFLAGS)

bench-wirestamp: need-go ## TIMELY's round trips on a loaded host, polled and stamped at the wire (root; docs/host-ebpf.md)
	@$(GO) test -run '^$$' -bench RTTSpread -benchtime 1x ./verbs/wirestamp

bench-pacing: need-go ## how well paced segments keep their times, beside loops that spin and sleep (docs/perf.md)
	@$(GO) test -run '^$$' -bench Pacing -benchtime 5x ./verbs/softroce

bench-c: libsluice ## what the C library and its preload add to raw libibverbs calls, on a null device (docs/c-api.md)
	@LIBSLUICE=$(abspath $(LIB)) $(GO) test -count=1 -run '^TestOverhead$$' -v ./libsluice -overhead

ROUNDS ?= 60

bench-roce: need-go ## softroce on the loopback beside plain UDP by the same calls: a table
	@mkdir -p $(BIN)
	@$(GO) test -c -o $(BIN)/bench-roce ./verbs/softroce
	@$(BIN)/bench-roce -beside-udp -test.benchtime $(ROUNDS)x

validate-nic: need-go ## hold the NIC model against published measurements; writes its part of docs/nic-figures.md
	$(GO) run ./bench/internal/nicvalidate/internal/write -o docs/nic-figures.md -first bench/internal/nicvalidate/blindfirst.yaml $(VALIDATEFLAGS)

compare-nic: need-go ## run scenarios with staged and with reduced NICs, side by side; minutes; writes its part of docs/nic-figures.md
	$(GO) run ./bench/internal/comparenic -o docs/nic-figures.md

# For example make mutants MUTANTS='auto -sample 50 ./roce/rc' (docs/mutants.md).
MUTANTS ?= plant

mutants: need-go ## plant faults one by one, and see which the unit tests find; most of an hour (docs/mutants.md)
	@$(GO) run ./tools/mutants $(MUTANTS)

check: look generate-check ## everything CI checks besides the tests

# All of it that writes no file of the tree. The linter runs go vet's analyzers too, each by its default.
look: fmt-check portable layers api-check tidy-check lint

fmt-check: need-go ## all Go files are as gofmt writes them
	@bad=$$("$$($(GO) env GOROOT)/bin/gofmt" -l .) || exit 1; \
	if [ -n "$$bad" ]; then echo 'not as gofmt writes them:'; echo "$$bad"; exit 1; fi
	@echo 'gofmt: ok'

# What is built without libibverbs alone: all else is looked at as it is built here.
WITHOUT_IBVERBS = $$(grep -rl --include='*.go' '^//go:build .*!ibverbs' . | sed 's|/[^/]*$$||' | sort -u)

vet: need-go ## go vet
	@$(GO) vet $(TAGS) ./...
	@[ "$(IBVERBS)" = no ] || $(GO) vet $(WITHOUT_IBVERBS)
	@echo 'go vet: ok'

portable: need-go ## what is not for Linux alone type-checks elsewhere
	@$(GO) run ./tools/portable darwin
	@echo 'types, for darwin: ok'

# The compilers of P4 that `make p4c` runs: a directory with p4test, p4c-bm2-ss and
# p4c-barefoot, or some of them.
P4C ?=

p4c: need-go ## run the programs in p4/ through the compilers in P4C=DIR, and print what they take of Tofino
	@$(GO) run ./tools/p4c "$(P4C)"

layers: need-go ## each package imports what tools/layers/layers.yaml says, and pure ones are pure
	@$(GO) run ./tools/layers check

# What changed since the last commit with a line in CHANGELOG.md. Where git is not, nothing is known.
api-check: ## what a public package declares (docs/api) changes with a line in CHANGELOG.md alone
	@if since=$$(git log -1 --first-parent -m --format=%H -- CHANGELOG.md 2>/dev/null) && [ -n "$$since" ]; then \
		git diff --exit-code --stat "$$since" HEAD -- docs/api || \
		{ echo 'docs/api has changed since the last change of CHANGELOG.md: say there what changes for users'; exit 1; }; \
		echo 'docs/api: ok'; \
	else echo 'docs/api: no history of git, not compared'; fi

tidy-check: need-go ## go.mod and go.sum are tidy
	@$(GO) mod tidy -diff
	@echo 'go mod tidy: ok'

lint: need-go $(GOLANGCI) ## golangci-lint: random numbers, errors, comments
	@$(GOLANGCI) config verify
	@GOGC=400 $(GOLANGCI) run $(if $(TAGS),--build-tags ibverbs) ./...
	@[ "$(IBVERBS)" = no ] || $(GOLANGCI) run $(WITHOUT_IBVERBS)

$(GOLANGCI):
	@echo 'building golangci-lint $(GOLANGCI_VERSION) into $(BIN)/ (a minute or two, once)'
	@$(call install-tool,github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION))

$(GOTESTSUM):
	@echo 'building gotestsum $(GOTESTSUM_VERSION) into $(BIN)/ (once)'
	@$(call install-tool,gotest.tools/gotestsum@$(GOTESTSUM_VERSION))

# $(call install-tool,MODULE@VERSION) builds a program of one file, the target.
install-tool = dir="$(CURDIR)/$@.d" && GOBIN="$$dir" CGO_ENABLED=0 $(GO) install $1 && mv "$$dir"/* $@ && rmdir "$$dir"

generate-check: need-go ## generated files are what go generate writes
	@sums() { find . -name .git -prune -o -path ./$(BIN) -prune -o -type f -exec cksum {} + | sort -k 3; }; \
	before=$$(sums) && $(GO) generate ./... && after=$$(sums) || exit 1; \
	if [ "$$before" != "$$after" ]; then \
		echo 'go generate changed files; they are fresh now, commit them. Now they read:'; \
		printf '%s\n' "$$after" | while IFS= read -r line; do \
			case "$$before" in *"$$line"*) ;; *) echo "  $${line##* }";; esac; done; \
		exit 1; fi
	@echo 'go generate: ok'

deb: need-go ## build Debian packages of the command and the C library into bin/ (docs/install.md)
	@[ "$(IBVERBS)" = yes ] || { echo '$(CHOSEN)'; exit 1; } >&2
	@GO='$(GO)' deploy/deb/build.sh $(BIN)

image: deb ## make a container image of the packages: bin/sluice-image.tar, for docker load or podman load (root; docs/install.md)
	@deploy/image/build.sh $(BIN)

clean: ## remove what the other targets wrote
	rm -rf $(BIN) out $(REPORT)

need-go:
	@command -v $(GO) >/dev/null 2>&1 || { \
		echo 'Sluice is built with Go, and "$(GO)" is not on the PATH.'; \
		echo 'Install Go 1.26 or newer from https://go.dev/dl/, or name it: make GO=/path/to/go ...'; \
		exit 1; } >&2
