package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

type terms struct{ lease, renewDeadline, retry, timeout time.Duration }

// elections takes part in leader elections of client-go, with ReleaseOnCancel.
type elections struct {
	client    kubernetes.Interface
	namespace string
	identity  string
	terms     terms

	mutex  sync.Mutex
	resign map[string]context.CancelFunc
}

func newElections(kubeconfig, kubeContext, namespace string, terms terms) (*elections, error) {
	silence()
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: kubeconfig},
		&clientcmd.ConfigOverrides{CurrentContext: kubeContext},
	).ClientConfig()
	if err != nil {
		return nil, err
	}
	// Many candidates share this client, where one process usually has one: its limit of 5 requests per second, which
	// is meant for one, would be what is measured.
	config.QPS = -1
	config.Timeout = terms.timeout
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	identity := fmt.Sprintf("peers-%d", os.Getpid())
	return &elections{
		client: client, namespace: namespace, identity: identity, terms: terms, resign: map[string]context.CancelFunc{},
	}, nil
}

func silence() {
	flags := flag.NewFlagSet("klog", flag.PanicOnError)
	klog.InitFlags(flags)
	flags.Set("logtostderr", "false")
	flags.Set("stderrthreshold", "FATAL")
	klog.SetOutput(nowhere{})
}

type nowhere struct{}

func (nowhere) Write(text []byte) (int, error) { return len(text), nil }

func (e *elections) lock(name string) *resourcelock.LeaseLock {
	return &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Name: name, Namespace: e.namespace},
		Client:     e.client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: e.identity},
	}
}

// run takes part until the context ends or the lease is lost; leading is called with the leader's context.
func (e *elections) run(ctx context.Context, lock resourcelock.Interface, leading func(context.Context)) error {
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:            lock,
		LeaseDuration:   e.terms.lease,
		RenewDeadline:   e.terms.renewDeadline,
		RetryPeriod:     e.terms.retry,
		ReleaseOnCancel: true,
		Callbacks:       leaderelection.LeaderCallbacks{OnStartedLeading: leading, OnStoppedLeading: func() {}},
	})
	if err == nil {
		elector.Run(ctx)
	}
	return err
}

func (e *elections) acquire(prefix string, count int) error {
	for index := range count {
		name := fmt.Sprintf("%s-%d", prefix, index)
		ctx, resign := context.WithCancel(context.Background())
		started := now()
		err := e.run(ctx, e.lock(name), func(context.Context) {
			acquired(name, started)
			resign()
		})
		resign()
		if err != nil {
			return err
		}
	}
	return nil
}

func (e *elections) hold(name string) {
	ctx, resign := context.WithCancel(context.Background())
	e.mutex.Lock()
	e.resign[name] = resign
	e.mutex.Unlock()
	go func() {
		err := e.run(ctx, recorded{e.lock(name), name}, func(leading context.Context) {
			happened("held", name)
			<-leading.Done()
			happened("stopped", name)
		})
		if err != nil {
			failed(name, err)
		}
	}()
}

func (e *elections) release(name string) {
	e.mutex.Lock()
	resign := e.resign[name]
	e.mutex.Unlock()
	happened("releasing", name)
	resign()
}

func (e *elections) renew(count int, begin func()) error {
	ctx := context.Background()
	lock := e.lock("renewed")
	record := resourcelock.LeaderElectionRecord{
		HolderIdentity: e.identity, LeaseDurationSeconds: 15, AcquireTime: metav1.Now(), RenewTime: metav1.Now(),
	}
	if err := lock.Create(ctx, record); err != nil {
		return err
	}
	begin()
	for range count {
		record.RenewTime = metav1.Now()
		if err := lock.Update(ctx, record); err != nil {
			return err
		}
	}
	return nil
}

// recorded tells when each write of a record was sent, before it is and once it has been accepted.
type recorded struct {
	resourcelock.Interface
	name string
}

func (r recorded) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return r.write(func() error { return r.Interface.Create(ctx, record) })
}

func (r recorded) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return r.write(func() error { return r.Interface.Update(ctx, record) })
}

func (r recorded) write(write func() error) error {
	sent := now()
	tell(event{Event: "sent", Name: r.name, At: sent})
	err := write()
	if err == nil {
		tell(event{Event: "renewed", Name: r.name, At: sent})
	}
	return err
}
