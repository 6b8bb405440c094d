// Peers is one process that holds locks of another kind than ours, so that both can be measured on one server: leader
// election of client-go, or mutexes of etcd. It takes its orders from standard input, one a line, and says what
// happens on standard output as JSON lines; times are seconds of CLOCK_BOOTTIME, as every other party reads them.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// party holds locks by name. Of these methods only acquire and renew wait.
type party interface {
	// acquire takes so many new locks that nobody else wants, one after the other, and times each.
	acquire(prefix string, count int) error
	// hold waits for a lock and keeps it until it is released or lost.
	hold(name string)
	// release gives a lock back that hold has got.
	release(name string)
	// renew keeps what it holds so many times; it says that it is ready, and begins when told.
	renew(count int, begin func()) error
}

type event struct {
	Event   string  `json:"event"`
	Name    string  `json:"name,omitempty"`
	At      float64 `json:"at"`
	Seconds float64 `json:"seconds,omitempty"`
	Message string  `json:"message,omitempty"`
}

var output sync.Mutex

func tell(one event) {
	line, err := json.Marshal(one)
	if err != nil {
		log.Fatal(err)
	}
	output.Lock()
	defer output.Unlock()
	os.Stdout.Write(append(line, '\n'))
}

// happened tells what happens to a lock now.
func happened(what, name string) { tell(event{Event: what, Name: name, At: now()}) }

func failed(name string, err error) {
	tell(event{Event: "failed", Name: name, At: now(), Message: err.Error()})
}

func acquired(name string, started float64) {
	at := now()
	tell(event{Event: "acquired", Name: name, At: at, Seconds: at - started})
}

func now() float64 {
	var at unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &at); err != nil {
		log.Fatal(err)
	}
	return float64(at.Sec) + float64(at.Nsec)/1e9
}

func main() {
	kind := flag.String("kind", "", "client-go or etcd")
	kubeconfig := flag.String("kubeconfig", "", "client-go: the path of the kubeconfig")
	kubeContext := flag.String("context", "", "client-go: its context")
	namespace := flag.String("namespace", "", "client-go: where the Leases are")
	lease := flag.Duration("lease", 15*time.Second, "client-go: LeaseDuration")
	deadline := flag.Duration("renew-deadline", 10*time.Second, "client-go: RenewDeadline")
	retry := flag.Duration("retry", 2*time.Second, "client-go: RetryPeriod")
	timeout := flag.Duration("timeout", 0, "client-go: how long a request may take; 0 is for ever, its default")
	endpoint := flag.String("endpoint", "", "etcd: its URL")
	ttl := flag.Int("ttl", 60, "etcd: the TTL of a session in seconds")
	flag.Parse()

	var one party
	var err error
	switch *kind {
	case "client-go":
		terms := terms{lease: *lease, renewDeadline: *deadline, retry: *retry, timeout: *timeout}
		one, err = newElections(*kubeconfig, *kubeContext, *namespace, terms)
	case "etcd":
		one, err = newMutexes(*endpoint, *ttl)
	default:
		err = fmt.Errorf("--kind must be client-go or etcd, and is %q", *kind)
	}
	if err != nil {
		log.Fatal(err)
	}
	tell(event{Event: "ready", At: now()})
	obey(one, bufio.NewScanner(os.Stdin))
}

// obey carries out orders until standard input ends: "acquire PREFIX COUNT", "hold NAME", "release NAME", or "renew
// COUNT" and a line to begin.
func obey(one party, orders *bufio.Scanner) {
	for orders.Scan() {
		words := strings.Fields(orders.Text())
		if len(words) < 2 {
			log.Fatalf("not an order: %q", orders.Text())
		}
		switch order := words[0]; order {
		case "acquire":
			done(order, one.acquire(words[1], number(words[len(words)-1])))
		case "hold":
			one.hold(words[1])
		case "release":
			one.release(words[1])
		case "renew":
			done(order, one.renew(number(words[1]), func() {
				tell(event{Event: "prepared", At: now()})
				orders.Scan()
			}))
		default:
			log.Fatalf("not an order: %q", orders.Text())
		}
	}
}

func done(order string, err error) {
	if err != nil {
		log.Fatalf("%s: %v", order, err)
	}
	happened("done", order)
}

func number(word string) int {
	value, err := strconv.Atoi(word)
	if err != nil {
		log.Fatal(err)
	}
	return value
}
