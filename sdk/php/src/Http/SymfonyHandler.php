<?php

declare(strict_types=1);

namespace Stoker\Http;

use Symfony\Component\HttpFoundation\Response as SymfonyResponse;
use Symfony\Component\HttpKernel\HttpKernelInterface;
use Symfony\Component\HttpKernel\KernelInterface;
use Symfony\Component\HttpKernel\TerminableInterface;
use Symfony\Contracts\Service\ResetInterface;

/**
 * Serves a Symfony application, which is booted once:
 *
 *     $kernel = new App\Kernel('prod', false);
 *     Worker::create()->onRequest(new SymfonyHandler($kernel))->run();
 *
 * After each response `kernel.terminate` is dispatched, and then the services that have the tag `kernel.reset` (those that
 * implement ResetInterface) are reset. State in other services and in static variables is shared by all requests.
 */
final class SymfonyHandler
{
    /**
     * @param HttpKernelInterface $kernel   the application's kernel, or any other
     * @param ResetInterface|null $resetter what resets services after a request; default: the service
     *                                      `services_resetter` of $kernel, if it has one
     */
    public function __construct(private HttpKernelInterface $kernel, private ?ResetInterface $resetter = null)
    {
        if ($kernel instanceof KernelInterface) {
            $kernel->boot(); // Now, so that the first request does not take longer.
        }
    }

    /** @throws BadRequest the request is malformed */
    public function __invoke(Request $request): SymfonyResponse
    {
        $made = HttpFoundation::request($request);
        $response = null;
        $request->afterResponse(function () use ($made, &$response): void {
            try {
                if ($response !== null && $this->kernel instanceof TerminableInterface) {
                    $this->kernel->terminate($made, $response);
                }
            } finally {
                $this->reset();
            }
        });

        return $response = $this->kernel->handle($made);
    }

    private function reset(): void
    {
        if ($this->resetter !== null) {
            $this->resetter->reset();
        } elseif ($this->kernel instanceof KernelInterface && $this->kernel->getContainer()->has('services_resetter')) {
            $this->kernel->getContainer()->get('services_resetter')->reset();
        }
    }
}
