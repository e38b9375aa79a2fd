<?php

declare(strict_types=1);

namespace Stoker\Tests;

use Symfony\Bundle\FrameworkBundle\FrameworkBundle;
use Symfony\Bundle\FrameworkBundle\Kernel\MicroKernelTrait;
use Symfony\Component\Config\Loader\LoaderInterface;
use Symfony\Component\DependencyInjection\ContainerBuilder;
use Symfony\Component\HttpFoundation\Request;
use Symfony\Component\HttpFoundation\Response;
use Symfony\Component\HttpKernel\Event\TerminateEvent;
use Symfony\Component\HttpKernel\Kernel;
use Symfony\Component\Routing\Loader\Configurator\RoutingConfigurator;
use Symfony\Contracts\Service\ResetInterface;

/** A Symfony application with a service that counts, and that reports what happens to it. */
final class SymfonyApplication extends Kernel
{
    use MicroKernelTrait;

    public function __construct(private string $folder)
    {
        parent::__construct('prod', false);
    }

    public function registerBundles(): iterable
    {
        yield new FrameworkBundle();
    }

    public function getProjectDir(): string
    {
        return $this->folder;
    }

    public function count(Request $request): Response
    {
        $count = $this->counter()->handle($request);

        return new Response("hello $count of {$request->getPathInfo()}");
    }

    public function throw(Request $request): never
    {
        $this->counter()->handle($request);
        throw new \DomainException('no');
    }

    /** @return list<string> what has happened since the last call */
    public function events(): array
    {
        [$events, Counter::$events] = [Counter::$events, []];

        return $events;
    }

    private function configureContainer(ContainerBuilder $container, LoaderInterface $loader): void
    {
        $container->loadFromExtension('framework', ['secret' => 's', 'http_method_override' => false, 'router' => ['utf8' => true]]);
        $container->register('counter', Counter::class)
            ->setPublic(true)
            ->addTag('kernel.reset', ['method' => 'reset'])
            ->addTag('kernel.event_listener', ['event' => 'kernel.terminate', 'method' => 'terminate']);
        $container->register('logger', \Psr\Log\NullLogger::class);
    }

    private function configureRoutes(RoutingConfigurator $routes): void
    {
        $routes->add('count', '/count')->controller([$this, 'count']);
        $routes->add('throw', '/throw')->controller([$this, 'throw']);
    }

    private function counter(): Counter
    {
        return $this->getContainer()->get('counter');
    }
}

final class Counter implements ResetInterface
{
    /** @var list<string> */
    public static array $events = [];
    private int $count = 0;

    public function handle(Request $request): int
    {
        self::$events[] = "handled {$request->getPathInfo()}";

        return ++$this->count;
    }

    public function terminate(TerminateEvent $event): void
    {
        self::$events[] = "terminated {$event->getRequest()->getPathInfo()}";
    }

    public function reset(): void
    {
        if ($this->count > 0) {
            self::$events[] = 'reset';
        }
        $this->count = 0;
    }
}
